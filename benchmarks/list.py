"""What does a LIST cost? Server CPU per request for 1,000 and 10,000 objects, in every form clients ask for."""

from __future__ import annotations

from support.load import Load, fill, median_of
from support.wardle import FLUNDERS, OTHER_VERSION, flunder, wardle

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def main() -> None:
    few = Load(in_flight=1, seconds=3, warm_s=0.5, most=500)
    with wardle() as server:

        def ask(path: str, what: str, accept: str = "application/json") -> None:
            load = Load(in_flight=few.in_flight, seconds=few.seconds, warm_s=few.warm_s, most=few.most, accept=accept)
            print(median_of(server, lambda n: ("GET", path, b"", ""), load).line(what))

        fill(server, lambda n: ("POST", FLUNDERS, flunder(f"object-{n:05d}", n), "application/json"), 1000)
        ask(FLUNDERS, "LIST 1,000")
        ask(f"{FLUNDERS}?limit=500", "LIST 500 as Table", TABLE)
        ask(OTHER_VERSION, "LIST 1,000 in the version that isn't stored")
        ask(FLUNDERS, "LIST 1,000 as PartialObjectMetadata", METADATA)
        ask(f"{FLUNDERS}?labelSelector=bucket%3Db7", "LIST 1,000 with a selector for 1 %")
        fill(server, lambda n: ("POST", FLUNDERS, flunder(f"object-{n:05d}", n), "application/json"), 9000, 1000)
        ask(FLUNDERS, "LIST 10,000")
        ask(f"{FLUNDERS}?labelSelector=bucket%3Db7", "LIST 10,000 with a selector for 1 %")


if __name__ == "__main__":
    main()
