"""Idioms of experts, training loops, choices, and functions that read."""

from __future__ import annotations

from tests.fixes.fuzz.programs import Program, idiom


@idiom("expert_loop")
def experts(made: Program) -> None:
    """A loop over experts, each of which works on the rows that it was picked for."""
    made.scripted = False
    made.init.append("self.experts = nn.ModuleList([nn.Identity(), nn.Tanh(), nn.ReLU()])")
    made.add("flat = x.reshape(-1, x.shape[-1])")
    place = made.pick(", device=x.device", ", device=flat.device", ", device=x.device", "")
    made.add(f"index = torch.arange(flat.shape[0]{place})[:, None] % 3")
    made.add("out = torch.zeros_like(flat)")
    work = made.pick("self.experts[e](rows)", "torch.tanh(rows)", "rows * 2", "rows - rows.mean(0)")
    scaled = made.pick("", " * y", " * weights[token, pos, None]")
    if "weights" in scaled:
        made.add("weights = torch.ones(flat.shape[0], 1, dtype=flat.dtype, device=x.device) * 0.5")
    done = made.pick(
        "out.index_add_(0, token, value)", "out[token] += value", "out.index_add_(0, token, value)"
    )
    if made.chance(0.5):
        classes = made.pick("3", "4" if "self" not in work else "3")
        made.add(f"picked = F.one_hot(index, {classes}).permute(2, 1, 0)")
        loop = made.pick("for e in range(3):", "for e in hit:")
        if "hit" in loop:
            made.add("hit = torch.greater(picked.sum(dim=(-1, -2)), 0).nonzero()")
        lines = ["e = e[0]"] if "hit" in loop else []
        lines.append("pos, token = torch.where(picked[e])")
    else:
        loop = "for e in range(3):"
        lines = ["token, pos = torch.where(index == e)"]
    if made.chance(0.2):
        lines += ["if token.shape[0] == 0:", "    continue"]
    lines += ["rows = flat[token]", f"value = ({work}{scaled}).to(out.dtype)", done]
    made.add(loop, *(f"    {line}" for line in lines))
    made.kept.append("out")


def _training(made: Program, *step: str, before: str = "", behind: str = "return total") -> None:
    """A training loop in a function of its own."""
    made.scripted = False
    loop = made.pick(
        *("for step in range(k):", "for step, part in enumerate([x, x * 2]):"),
        "for part in [x, x * 2]:",
    )
    counted = [] if "step" in loop else ["    step += 1"]
    lines = [
        *(["step = 0"] if counted else []),
        "weight = torch.ones(x.shape[-1], device=x.device, requires_grad=True)",
        "optimizer = torch.optim.SGD([weight], lr=0.1)",
        *([before] if before else []),
        loop,
        "    optimizer.zero_grad()",
        f"    loss = ({'part' if 'part' in loop else 'x'}.float() * weight).abs().sum()",
        "    loss.backward()",
        "    optimizer.step()",
        *(f"    {line}" for line in step),
        *counted,
        behind,
    ]
    made.above.append("def train(x, k):\n" + "\n".join(f"    {line}" for line in lines))
    made.add("with torch.enable_grad():", "    trained = train(x.detach().clone(), 2)")
    made.kept.append("trained")


@idiom("say_sometimes")
def said_each_step(made: Program) -> None:
    """A message on each step."""
    text = made.pick(
        *("print(loss.item())", "print(f'{step} {loss.item():.3f}')", "print('loss', float(loss))"),
        *("logger.info('%s', loss.item())", "print(loss)", "print(seen.append(loss.item()))"),
    )
    lines = [f"if step >= 0:\n            {text}"] if made.chance(0.2) else [text]
    before = "seen = []" if "seen" in text else ""
    _training(made, *lines, before=before, behind="return weight.detach()")


@idiom("factory_device", "scalar_fill")
def made_each_step(made: Program) -> None:
    """A constant, a range or a number that is copied to the device on each step."""
    device = made.pick("x.device", "device", "weight.device", "torch.device('cpu')")
    factory = made.pick(
        *("torch.zeros(2, k)", "torch.arange(k)", "torch.ones(k).long()", "torch.rand(k)"),
        *("torch.arange(k).view(1, -1) * 2", "torch.tensor([1.0, 2.0])", "torch.full((k,), 0.5)"),
    )
    number = made.pick("0.5", "k", "0", "1.0", "k * 0.1", "True", "float('inf')")
    dtype = made.pick("", ", dtype=torch.float32", ", dtype=x.dtype", ", dtype=torch.int64")
    text = made.pick(f"({factory}).to({device})", f"torch.tensor({number}, device={device}{dtype})")
    lines = [
        f"part = {text}",
        made.pick("total = total + part.sum()", "total = part * loss.detach()"),
    ]
    _training(made, *lines, before="total = 0.0; device = x.device")


@idiom("loop_copy")
def copied_each_step(made: Program) -> None:
    """A batch that is copied to the device on each step, from a data loader or a list."""
    made.scripted = False
    given = made.pick(
        "", "", ", shuffle=False", ", num_workers=0", ", pin_memory=False", ", **more"
    )
    size = made.pick("1", "2", "batch_size=2", "batch_size=1")
    loader = made.pick("{}", "torch.utils.data.{}").format("DataLoader(list(x.cpu()), {}{})")
    device = made.pick("x.device", "device", "weight.device")
    moved = made.pick(
        *("batch.to({})", "batch.to(device={})", "batch.to({}, non_blocking=False)"),
        *("batch.to({}).float()", "batch.to({}, **more)", "batch.float().to({})"),
    )
    target = made.pick("batch", "part", "batch")
    lines = [
        "from torch.utils.data import DataLoader",
        "",
        "more = {}",
        "device = x.device",
        "weight = torch.ones(x.shape[-1], device=device, requires_grad=True)",
        "optimizer = torch.optim.SGD([weight], lr=0.1)",
        f"loader = {loader.format(size, given)}",
        made.pick("for batch in loader:", "for step, batch in enumerate(loader):"),
        f"    {target} = {moved.format(device)}",
        "    optimizer.zero_grad()",
        f"    loss = ({target}.float() * weight).abs().sum()",
        "    loss.backward()",
        "    optimizer.step()",
        *(["    batch.zero_()"] if made.chance(0.1) else []),
        "return weight.detach()",
    ]
    made.above.append("def train(x, k):\n" + "\n".join(f"    {line}".rstrip() for line in lines))
    made.add(
        "if len(x) > 0:",
        "    with torch.enable_grad():",
        "        seen.append(train(x.detach(), 2))",
    )


@idiom("tensor_branch")
def chosen(made: Program) -> None:
    """A conditional expression on a tensor."""
    one, other = (
        made.pick("x * 2", "x", "x.relu()", "-x", "x.exp()", "torch.cat([x, x])", "x / y", "x[0]")
        for _ in range(2)
    )
    test = made.pick(
        *("x.sum() > 0", "mask.any()", "y > 0", "not mask.all()", "x.max() > y", "(x > 0).all()"),
        "y.abs().sum() < 9 and mask.any()",
    )
    made.add(f"x = {one} if {test} else {other}")


@idiom("breaking_function")
def reads(made: Program) -> None:
    """A function that reads numbers off tensors, or looks for indices."""
    result = made.pick(
        *("z.max().item()", "int(z.sum() > 0) + 1", "float(z.abs().sum())", "z.shape[0]"),
        *("len(z.nonzero())", "(z > 0).nonzero()", "z.tolist()", "z * 2", "(1, z.min().item())"),
    )
    lines = [made.pick("z = z.abs()", "z = z * 2", "z = z + 1", "z.add_(1)", "print(z.shape)")]
    lines = lines if made.chance(0.5) else []
    if made.chance(0.3):
        lines += ["if z.numel() == 0:", "    return 0"]
    lines.append(f"return {result}")
    made.scripted = False
    if made.chance(0.5):
        made.methods.append("def read(self, z):\n" + "\n".join(f"    {each}" for each in lines))
        made.keep("self.read(x)")
    else:
        note = made.pick("", ": torch.Tensor")
        body = "\n".join(f"    {each}" for each in lines)
        made.above.append(f"def read(z{note}):\n{body}")
        made.keep("read(x)")


@idiom("scaled_operand")
def scaled(made: Program) -> None:
    """A factor that is read from a tensor."""
    made.scripted = False
    factor = made.pick("x.sum()", "-x.abs().max()", "y", "torch.tensor(0.5)", "x.mean()", "2.0")
    other = made.pick("x * 2", "x", "x.abs()", "torch.ones_like(x)", "x[:1]")
    form = made.pick(
        *("torch.add(x, {0}, alpha={1})", "x.sub({0}, alpha={1})", "torch.sub(x, {0}, alpha={1})"),
        *("torch.addcmul(x, {0}, x, value={1})", "x.addcdiv({0}, x, value={1})"),
        "torch.add({0}, x, alpha={1}) * k",
    )
    made.keep(form.format(other, factor))


@idiom("element_index")
def looked_up(made: Program) -> None:
    """An element that is looked up by an index computed on the device."""
    made.scripted = False
    index = made.pick(
        *("x.reshape(-1).argmax() % x.shape[0]", "(x.sum() > 0).long()", "torch.tensor(0)"),
        *("x.flatten()[:2].argmin() * 0", "-(x.sum() > 0).long()", "x.sum().long() * 0"),
    )
    if made.chance(0.5):
        made.add(f"at = {index}")
        index = "at"
    if made.chance(0.4):
        table = made.pick("z", "self.table", "z.T", "(self.table * 2)")
        at = made.pick(
            "t", "t - 1", "-t", "t % 2", "t * 2 - 1", "before", "t if t is not None else 0"
        )
        said = made.pick("int", "int | torch.Tensor", "int | None")
        made.init.append("self.table = torch.arange(12.0).reshape(4, 3)")
        ends = made.pick("", " * 2", "[..., :1]", ".mul_(2)")
        made.methods.append(
            f"def row(self, z: torch.Tensor, t: {said}):\n    before = t - 1\n"
            f"    return {table}[{at}]{ends}"
        )
        made.keep(f"self.row(x, {index})")
        made.keep(f"self.row(x, {made.pick('0', '1', 'y.sum().long() * 0', 'k * 0')})")
    elif made.chance(0.3):
        made.add(f"row = x[{index}]", made.pick("row.mul_(2)", "row = row * 2", "row += 1"))
        made.keep("row")
    else:
        made.keep(made.pick("x[{}]", "x[{}] * 2", "x[{}][..., :1]", "x.T[{}]").format(index))
