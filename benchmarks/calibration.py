"""How fast is this machine now? CPU µs of a fixed piece of work: see support/calibration.py."""

from __future__ import annotations

from support.calibration import unit_us


def main() -> None:
    print(f"calibration: {unit_us():.1f} µs CPU per unit")


if __name__ == "__main__":
    main()
