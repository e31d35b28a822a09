"""Idioms of layers that a draw may drop."""

from __future__ import annotations

from tests.fixes.fuzz.programs import Program, idiom

_LAYER = """class {name}(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = nn.Parameter(torch.tensor(by))

    def forward(self, x, mask=None):
        found = {body}
        return {gives}"""


def _made_layers(made: Program) -> tuple[str, str]:
    """Add layers to the model; the loop over them, and the call of one of them."""
    made.scripted = False
    body = made.pick("x * self.by", "x + self.by", "(x * self.by).tanh()", "torch.sin(x) + x.sum()")
    gives = made.pick("found", "found", "found, mask")
    layer = f"Layer{len(made.above)}"
    made.above.append(_LAYER.format(name=layer, body=body, gives=gives))
    layers = f"self.layers{len(made.above)}"
    each = ", ".join(f"{layer}({by})" for by in (0.5, 1.5, -2.0))
    made.init.append(f"{layers} = nn.ModuleList([{each}])")
    made.init.append(f"self.drop = {made.pick('0.0', '0.4', '0.6', '1.0')}")
    made.init.append(f"self.synced = {made.pick('False', 'False', 'True')}")
    loop = made.pick(
        f"for number, layer in enumerate({layers}):",
        f"for number, layer in enumerate({layers}, 1):",
        f"for number, layer in zip(range(9), {layers}):",
    )
    call = made.pick("layer(x)", "layer(x, mask=mask)", "layer(x, mask)")
    return loop, f"{call}[0]" if gives != "found" else call


def _draw(made: Program) -> str:
    return made.pick(
        *("torch.rand([])", "torch.rand(1)", "torch.rand(())", "torch.rand([], device=x.device)"),
        *("torch.rand(2)[0]", "torch.rand((1,)) * 0.5", "torch.rand(1).item()", "random.random()"),
    )


def _probability(made: Program) -> str:
    return made.pick("self.drop", "self.drop", "p", "0.5", "self.drop * number / 3")


def _loop(made: Program, loop: str, *lines: str) -> None:
    rest = made.pick("", "", "", "    first = x", "    x = x + 1", "    seen.append(x)")
    made.add(loop, *(f"    {line}" for line in lines), rest or "    pass")


@idiom("dropped_layer")
def under_a_flag(made: Program) -> None:
    """A flag that a branch on the draw sets."""
    loop, call = _made_layers(made)
    asked = made.pick("draw < {}", "draw < {}", "{} > draw", "draw <= {}").format(
        _probability(made)
    )
    wide = made.pick("self.training", "self.training and self.drop > 0.0", "k > 1")
    kept = made.pick("not skip", "not skip", "not skip or self.synced", "self.synced or not skip")
    between = made.pick("", "", "", "first = x", "x = x * 2")
    _loop(
        made,
        loop,
        "skip = False",
        f"if {wide}:",
        f"    draw = {_draw(made)}",
        f"    if {asked}:",
        f"        skip = {made.pick('True', 'True', 'True', 'number > 0')}",
        between or "pass",
        f"if {kept}:",
        f"    x = {call}",
    )


@idiom("dropped_layer")
def by_the_result(made: Program) -> None:
    """A flag that is the comparison's result."""
    loop, call = _made_layers(made)
    draw, probability = _draw(made), _probability(made)
    wide = made.pick("self.training", "self.training and self.drop > 0.0", "k > 1")
    value = made.pick(
        f"draw < {probability}", f"{probability} > draw", f"bool(draw < {probability})"
    )
    kept = made.pick("not skip", "not skip or self.synced", "self.synced or k > 2 or not skip")
    lines = ["skip = False", f"if {wide}:", f"    draw = {draw}", f"    skip = {value}"]
    if made.chance(0.3):
        lines = [f"draw = {draw}", f"skip = {value} if {wide} else False"]
    elif made.chance(0.2):
        lines = [f"skip = {value.replace('draw', f'({draw})')}"]
    _loop(made, loop, *lines, f"if {kept}:", f"    x = {call}")


@idiom("dropped_layer")
def in_the_condition(made: Program) -> None:
    """A comparison where the layer is run."""
    loop, call = _made_layers(made)
    probability = _probability(made)
    compared = made.pick(
        f"draw > {probability}", f"draw >= {probability}", f"{probability} < draw", "draw"
    )
    more = made.pick(
        *("not self.training or {}", "not self.training or self.drop == 0.0 or {}", "{}"),
        *("{} or self.synced", "k > 5 or {}", "self.training and {}"),
    )
    kept = more.format(compared)
    if made.chance(0.5):
        kept = kept.replace("draw", f"({_draw(made)})")
        _loop(made, loop, f"if {kept}:", f"    x = {call}")
    else:
        _loop(made, loop, f"draw = {_draw(made)}", f"if {kept}:", f"    x = {call}")


@idiom("dropped_layer")
def from_a_table(made: Program) -> None:
    """Draws of all layers at once."""
    loop, call = _made_layers(made)
    table = made.pick(
        *("torch.rand(9)", "torch.rand(9, device=x.device)", "torch.rand(9).tolist()"),
        *("torch.rand(9) > 0.5", "[torch.rand([]) for _ in range(9)]", "torch.rand(9).sort()[0]"),
    )
    made.add(f"keep = {table}")
    compared = made.pick(
        *("keep[number] > self.drop", "self.drop < keep[number]", "keep[number] > p"),
        *("keep[number] >= 0.5", "keep[number, None] > 0.5", "keep[number]"),
    )
    more = made.pick("{}", "not self.training or self.drop == 0.0 or {}", "self.synced or {}")
    _loop(made, loop, f"if {more.format(compared)}:", f"    x = {call}")


@idiom("dropped_layer")
def once(made: Program) -> None:
    """One layer, or a function, outside any loop."""
    made.scripted = False
    made.init.append(f"self.drop = {made.pick('0.0', '0.4', '0.6', '1.0')}")
    made.above.append("def block(x, by=2):\n    return x * by + 1")
    call = made.pick("block(x)", "block(x, by=k)", "torch.tanh(x)", "x.sin()", "x + 1", "x * y")
    name = made.pick("x", "x", "first")
    made.add("first = x")
    draw, probability = _draw(made), made.pick("self.drop", "p", "0.5")
    form = made.pick(
        f"if {draw} > {probability}:\n    {name} = {call}",
        f"draw = {draw}\nif draw > {probability}:\n    {name} = {call}",
        f"skip = {draw} < {probability}\nif not skip:\n    {name} = {call}",
        f"skip = {draw} < {probability}\nif not skip:\n    {name} = {call}\nelse:\n    x = x * 2",
        f"skip = {draw} < {probability}\nif not (skip and k > 1):\n    {name} = {call}",
        f"skip = {draw} < {probability}\nif not skip:\n    {name} = {call}\nseen.append(skip)",
    )
    made.add(form)
    made.keep(name)
