"""Draw every figure of the documentation into docs/img."""

from __future__ import annotations

from benchmarks.figures import data, diagram, draw


def main() -> None:
    made = diagram.draw(data.FOLDER)
    for figure in data.figures():
        made += draw.draw(figure, data.FOLDER)
    for path in made:
        print(path.relative_to(data.FOLDER.parents[1]))


if __name__ == "__main__":
    main()
