"""How fast is this machine now? CPU µs of a fixed piece of work: see support/calibration.py."""

from __future__ import annotations

from support.calibration import Calibration


def main() -> None:
    with Calibration() as calibration:
        print(f"calibration: {calibration.best_us():.1f} µs CPU per unit, the best of some rounds")


if __name__ == "__main__":
    main()
