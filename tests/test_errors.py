"""Errors as a person sees them: at most three lines, nothing told twice."""

import pytest

from jaxscale_magic.errors import CellError, ChipError

CASES = [
    # (error, str(error), the lines that IPython prints)
    (
        CellError("it needs a number.", advice="Write it so.", line=3, text="  print(z)"),
        "line 3 (`print(z)`): it needs a number. Write it so.",
        ["CellError, line 3: print(z)", "  it needs a number.", "  Write it so."],
    ),
    (
        CellError("the cell is empty.", advice="Write code."),
        "the cell is empty. Write code.",
        ["CellError: the cell is empty.", "  Write code."],
    ),
    # Code behind `%roofline` may stand anywhere in a cell: its line is not known.
    (
        CellError("it is wrong.", line=1, text="f(x)"),
        "`f(x)`: it is wrong.",
        ["CellError: f(x)", "  it is wrong."],
    ),
    (CellError("f takes no w."), "f takes no w.", ["CellError: f takes no w."]),
    (ChipError("no chip is called 'v9'."), "no chip is called 'v9'.", ["ChipError: no chip is called 'v9'."]),
]


@pytest.mark.parametrize(("error", "sentence", "lines"), CASES)
def test_what_is_shown(error, sentence, lines):
    assert str(error) == sentence
    assert error._render_traceback_() == lines


def test_a_long_line_of_code_stays_one_line():
    error = CellError("it is wrong.", line=2, text="x" * 10_000)
    assert max(map(len, error._render_traceback_())) < 130
