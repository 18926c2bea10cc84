"""`%roofline` and `%%roofline`: options in, report out.

Parsing the options and putting results into the notebook live here; no arithmetic does.
"""

from __future__ import annotations

import ast
import keyword
import re
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from jaxscale_magic.errors import JaxscaleError

#: Options of `%roofline` that are followed by a value.
_WITH_VALUE = frozenset({"--on", "-n", "-r", "--budget", "--batch", "-v"})


@magics_class
class RooflineMagics(Magics):
    """The magics that `%load_ext jaxscale_magic` registers."""

    shell: Any

    @no_var_expand
    @magic_arguments()
    @argument(
        "--on",
        metavar="CHIP",
        help="the chip or slice to hold it against: v5e, v5p:4x4x4, h100:8, ...; default: this machine",
    )
    @argument("-n", dest="loops", type=int, metavar="N", help="calls a timing sample (default: chosen)")
    @argument("-r", dest="repeats", type=int, metavar="R", help="timing samples (default: chosen)")
    @argument("--budget", type=float, default=2.0, metavar="S", help="seconds that timing may take (default: 2)")
    @argument("--batch", metavar="NAME", help="what counts as the batch: x, or x[1] for its second dimension")
    @argument("--no-measure", action="store_true", help="analyse and run once, without timing")
    @argument("--no-advice", action="store_true", help="do not look for what would help")
    @argument("--stand-in", action="store_true", help="let the CPU compiler stand in for another chip's own")
    @argument("-q", dest="quiet", action="store_true", help="show no report")
    @argument("-o", dest="output", action="store_true", help="return the report, as the cell's value")
    @argument("-v", dest="variable", metavar="VAR", help="keep the report in a variable")
    @line_cell_magic
    def roofline(self, line: str, cell: str | None = None) -> Any:
        """What limits this code, why, how far from that limit it runs, and what would help.

        Over a cell, the whole cell is traced as one program. Its inputs are the arrays, and pytrees of arrays,
        that it reads; every other name is a Python constant. It runs once, its variables land in the notebook
        and its last expression is displayed, as without the magic.

            %%roofline                   this cell on this machine: analysed, run, timed
            %%roofline --on v5e          the same held against a TPU v5e
            %roofline f(x, w)            one call; a jitted f keeps shardings, donation and static arguments
            r = %roofline -o f(x)        return the report instead of showing it

        An input that is a `jax.ShapeDtypeStruct` has a shape and no numbers: the program is analysed, not run.
        """
        words, code = split_options(line)
        try:
            asked = parse_argstring(self.roofline, words)
        except ValueError as error:  # a quote that is not closed
            raise UsageError(f"%roofline: {error} in {words!r}.") from error
        if cell is not None and code.strip():
            raise UsageError(f"%%roofline: code goes on the lines below, not behind the options: {code.strip()!r}")
        shown = [code] if cell is None else [f"%%roofline {line}", *cell.split("\n")]
        try:
            analysis = self._analyzed(line, code, cell, _checked(asked))
        except JaxscaleError as error:
            from jaxscale_magic.report.error_box import show_error

            show_error(error, shown)
            raise
        if asked.variable:
            self.shell.user_ns[asked.variable] = analysis.report
        if not asked.quiet and not asked.output:  # returned, it shows itself
            display(analysis.report)
        if cell is not None and analysis.shows_value:
            self.shell.displayhook(analysis.value)
        return analysis.report if asked.output else None

    def _analyzed(self, line: str, code: str, cell: str | None, options: Any) -> Any:
        from jaxscale_magic.analysis import analyze

        captured = self._capture_cell(line, cell) if cell is not None else self._capture_line(code)
        return analyze(captured, options)

    def _capture_cell(self, line: str, cell: str) -> Any:
        from jaxscale_magic.capture import capture_cell, parse_cell

        shown = f"%%roofline {line}".rstrip() + "\n" + cell
        filename = self._filename(shown)
        parsed = parse_cell(cell, filename=filename, first_line=2, flags=self.shell.compile.flags)
        return capture_cell(parsed, self.shell.user_ns)

    def _capture_line(self, code: str) -> Any:
        """One call of a jitted function as it is; anything else like a cell of one line."""
        from jaxscale_magic.capture import capture_cell, parse_cell
        from jaxscale_magic.capture_call import capture_call
        from jaxscale_magic.cell_errors import explain

        filename = self._filename(code)
        cell = parse_cell(code.strip(), filename=filename, first_line=1, flags=self.shell.compile.flags)
        only = cell.tree.body[0]
        if len(cell.tree.body) == 1 and isinstance(only, ast.Expr) and isinstance(only.value, ast.Call):
            namespace = self.shell.user_ns
            try:
                function = eval(_expression(only.value.func, filename), namespace)
                if hasattr(function, "trace") and hasattr(function, "lower"):
                    args, kwargs = _evaluated_arguments(only.value, filename, namespace)
                    return capture_call(function, args, kwargs)
            except Exception as error:
                raise explain(error, filename, cell.lines, namespace) from error
        return capture_cell(cell, self.shell.user_ns)

    def _filename(self, text: str) -> str:
        """A file name under which linecache and tracebacks know the text."""
        try:
            name: str = self.shell.compile.cache(text, self.shell.execution_count, raw_code=text)
        except UnicodeEncodeError as error:
            raise UsageError(f"the cell holds a character that is no text: {text[error.start]!a}.") from error
        return name


def split_options(line: str) -> tuple[str, str]:
    """Split a magic's line into its options and the code behind them, whose quotes are not touched.

    >>> split_options("--on v5e -q f(x, '-r')")
    ('--on v5e -q', "f(x, '-r')")
    """
    position = 0
    while word := re.compile(r"\s*(-[^\s]+)(?=\s|$)").match(line, position):
        position = word.end()
        if word[1] in _WITH_VALUE:
            value = re.compile(r"\s*(\"[^\"]*\"|'[^']*'|[^\s]+)").match(line, position)
            if value:
                position = value.end()
    return line[:position].strip(), line[position:].strip()


def _checked(asked: Any) -> Any:
    """The options as `analysis.Options`.

    Raises:
        UsageError: a number that means nothing.
    """
    from jaxscale_magic.analysis import Options

    for option, value in (("-n", asked.loops), ("-r", asked.repeats)):
        if value is not None and value < 1:
            raise UsageError(f"%roofline: {option} must be at least 1, not {value}.")
    if not asked.budget > 0:
        raise UsageError(f"%roofline: --budget must be a positive number of seconds, not {asked.budget:g}.")
    if asked.variable is not None and (not asked.variable.isidentifier() or keyword.iskeyword(asked.variable)):
        raise UsageError(f"%roofline: -v needs a variable name, not {asked.variable!r}.")
    return Options(
        on=asked.on,
        measure=not asked.no_measure,
        loops=asked.loops,
        repeats=asked.repeats,
        budget=asked.budget,
        batch=asked.batch,
        advise=not asked.no_advice,
        stand_in=asked.stand_in,
    )


def _expression(node: ast.expr, filename: str) -> Any:
    return compile(ast.Expression(node), filename, "eval", dont_inherit=True)


def _evaluated_arguments(
    call: ast.Call, filename: str, namespace: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, evaluated in the notebook, stars and all."""

    def collect(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, kwargs

    name = "__jaxscale_magic_collect"
    func = ast.copy_location(ast.Name(name, ast.Load()), call.func)
    replaced = ast.copy_location(ast.Call(func, call.args, call.keywords), call)
    collected: tuple[tuple[Any, ...], dict[str, Any]] = eval(
        _expression(replaced, filename), namespace | {name: collect}
    )
    return collected
