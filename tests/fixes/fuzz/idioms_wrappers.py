"""Idioms of functions with decorators in which the graph ends."""

from __future__ import annotations

from tests.fixes.fuzz.programs import Program, idiom

_AROUND = {
    "try": "try:\n            return func(*args, **kwargs)\n"
    "        finally:\n            said.append(1)",
    "with": "with torch.no_grad():\n            return func(*args, **kwargs)",
    "result": "found = func(*args, **kwargs)\n        return (found, 1) if swap else found",
    "given": "kwargs.setdefault('w', 2)\n        return func(*args, **kwargs)",
    "caught": "try:\n            return func(*args, **kwargs)\n        except ValueError:\n"
    "            return None",
    "twice": "func(*args, **kwargs)\n        return func(*args, **kwargs)",
}
_DECORATOR = """said = []


def around(func):
    @functools.wraps(func)
    def wrapper(*args, swap=False, **kwargs):
        {body}

    return wrapper


def named(label):
    def decorate(func):
        @functools.wraps(func)
        def inner(*args, **kwargs):
            said.append(label)
            return func(*args, **kwargs)

        return inner

    return decorate


def plain(func):
    return func"""


@idiom("breaking_function")
def wrapped(made: Program) -> None:
    """A function that computes much, or little, under decorators."""
    made.scripted = False
    made.above.append("import functools")
    made.above.append(_DECORATOR.format(body=_AROUND[made.pick(*_AROUND)]))
    read = made.pick(
        *("z.max().item()", "len(z[z > 0])", "int(z.sum())", "float(z.min() if w else z.max())"),
        *("z.tolist()[0] if z.dim() == 1 else 1.0", "1.0 if z.sum() > 0 else 2.0"),
    )
    much = made.pick(
        "z", "(z.sin() + z.cos() * z.tanh() - z.abs() / 2).exp().neg() * z.sigmoid() + z"
    )
    lines = [f"n = {read}", f"y = {much}", made.pick("return y * n", "return y + n, w", "return y")]
    if made.chance(0.2):
        lines.insert(0, made.pick("if w is None:\n        return z", "z = z * 2", "z = z.clone()"))
    used = made.pick("@around", "@around", "@named('f')", "@around\n@named('f')", "@around\n@plain")
    body = "\n".join(f"    {line}" for line in lines)
    if made.chance(0.5):
        method = f"def made_by(self, z: torch.Tensor, w=1):\n{body}"
        made.methods.append(f"{used}\n{method}")
        made.keep(made.pick("self.made_by(x)", "self.made_by(x, w=3)", "self.made_by(x * 2)"))
    else:
        made.above.append(f"{used}\ndef made_by(z: torch.Tensor, w=1):\n{body}")
        made.keep(made.pick("made_by(x)", "made_by(x * 2, w=3)", "made_by(x.clone(), 0)"))
    if made.chance(0.3):
        made.keep("len(said)")
