"""Draw every figure of the documentation into docs/img, and write the tables of pages."""

from __future__ import annotations

from benchmarks.figures import data, diagram, draw, tables


def main() -> None:
    figures = data.figures()
    made = diagram.draw(data.FOLDER)
    for figure in figures:
        made += draw.draw(figure, data.FOLDER)
    made += tables.write(tables.filled, tables.pages())
    for figure in figures:
        made += tables.write(figure.captioned, tables.pages())
    for path in made:
        print(path.relative_to(tables.ROOT))


if __name__ == "__main__":
    main()
