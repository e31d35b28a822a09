"""Facts and catalogue to findings."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from pygraph_lint.analysis.domain.events import Event
from pygraph_lint.analysis.interpreter.host_tensors import MADE
from pygraph_lint.analysis.link import Project
from pygraph_lint.analysis.program.facts import ModuleFacts, Sinks
from pygraph_lint.analysis.regions.compiled import RegionOptions
from pygraph_lint.analysis.regions.receiver_names import is_of_loss
from pygraph_lint.analysis.syntax.nodes import deep_recursion, short
from pygraph_lint.findings import Finding, Location, Region, unreadable
from pygraph_lint.rules.break_forms import Form, form_of, version_numbers
from pygraph_lint.rules.catalogue import Rule

# Of a tensor on the host no device has to be waited for.
_ON_HOST = (
    "`{subject}` needs the value of a tensor on the host while it is traced: the graph breaks"
)
# A data loader copies nothing itself.
_UNPINNED = (
    "`{subject}` does not pin its batches: their copy to the device blocks the host on every step"
)


@dataclass(frozen=True, slots=True)
class Options:
    """Which findings are wanted.

    ``target`` (``compile``, ``fullgraph``, ``cudagraph`` or None for all) keeps rules with
    consequences there; ``target_torch`` (``2.11``) keeps rules that hold for that version;
    ``preview`` adds preview rules; ``regions`` is ``forward`` (any module's forward) or
    ``compiled`` (only what is provably compiled or captured) or ``all`` (also every function that
    gets tensors); ``entry_points`` are globs of qualified names that are compiled, too; ``closed``
    says that nothing outside the checked files changes what is in them.
    """

    target: str | None = None
    target_torch: str | None = None
    preview: bool = False
    regions: str = "forward"
    entry_points: tuple[str, ...] = ()
    closed: bool = False

    @property
    def asked(self) -> RegionOptions:
        """The regions that the user names."""
        return RegionOptions(self.entry_points, self.regions == "all")


def sinks(rules: dict[str, Rule]) -> Sinks:
    """The calls and tensor methods that rules list by name, in the form the analysis wants."""
    calls = [call for rule in rules.values() for call in rule.calls]
    return Sinks(
        frozenset(call for call in calls if not call.endswith(".*")),
        tuple(sorted(call[:-1] for call in calls if call.endswith(".*"))),
        frozenset(method for rule in rules.values() for method in rule.methods),
    )


class Reporter:
    """Turns the events of modules into findings."""

    def __init__(self, project: Project, rules: dict[str, Rule], options: Options) -> None:
        self.project = project
        self.options = options
        self.by_event: dict[str, Rule] = {}
        self.by_call: dict[str, Rule] = {}
        self.by_prefix: list[tuple[str, Rule]] = []
        self.by_method: dict[str, Rule] = {}
        for rule in rules.values():
            if not self.wanted(rule):
                continue
            self.by_event.update(dict.fromkeys(rule.events, rule))
            self.by_method.update(dict.fromkeys(rule.methods, rule))
            for call in rule.calls:
                if call.endswith(".*"):
                    self.by_prefix.append((call[:-1], rule))
                else:
                    self.by_call[call] = rule

    def wanted(self, rule: Rule) -> bool:
        """Whether the options let a rule speak."""
        options = self.options
        if rule.status == "preview" and not options.preview:
            return False
        if options.target is not None and not rule.follows(options.target):
            return False
        return options.target_torch is None or version_allows(rule.torch, options.target_torch)

    def rule_of(self, event: Event) -> Rule | None:
        """The rule that reports an event."""
        if event.kind == "call":
            found = self.by_call.get(event.subject)
            if found is None:
                for prefix, rule in self.by_prefix:
                    if event.subject.startswith(prefix):
                        return rule
            return found
        if event.kind == "method":
            return self.by_method.get(event.subject.lstrip("."))
        return self.by_event.get(event.kind)

    def findings(self, facts: ModuleFacts) -> list[Finding]:
        """All findings of one module, in order of position; or that its calls go too deep to be
        followed.
        """
        try:
            with deep_recursion():
                return self._findings(facts)
        except RecursionError:
            return [unreadable(Path(facts.path), "nested too deeply to be analysed")]

    def _findings(self, facts: ModuleFacts) -> list[Finding]:
        found: dict[tuple[str, int, int], Finding] = {}
        for function in facts.functions.values():
            region = self.project.region(function.name)
            if region is None or (self.options.regions == "compiled" and not region.certain):
                continue
            self.add(found, facts, function.events, region)
            self.add(found, facts, self.disabled_calls(function.name), region)
        self.add(found, facts, facts.capture_events, None)
        self.add_loops(found, facts)
        places = {key[1:] for key in found if not key[0].startswith("PG6")}
        for key, finding in list(found.items()):
            doubled = finding.event is not None and finding.event.kind == "capture.sync"
            if doubled and key[1:] in places:
                del found[key]
        return sorted(found.values(), key=lambda finding: finding.sort_key)

    def add_loops(self, found: dict[tuple[str, int, int], Finding], facts: ModuleFacts) -> None:
        """Findings for what costs on every step of a training loop. They come instead of those of
        a region that is not certain, where gradients are computed: that code is not compiled,
        unless the user says that all of it may be.
        """
        every = self.options.regions == "all"
        places: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
        for key in found:
            places.setdefault(key[1:], []).append(key)
        for region, event in self.project.loop_events(facts):
            rule = self.rule_of(event)
            taken = places.get((event.span.line, event.span.column), [])
            called = len(region.call_path) > 1 and not is_of_loss(region.function)
            stays = (every or _stays(found[key], event, called) for key in taken)
            if rule is None or any(stays):
                continue
            for key in taken:
                del found[key]
            taken.clear()
            key = (rule.code, event.span.line, event.span.column)
            if key not in found:
                found[key] = self.finding(facts, event, rule, region)

    def disabled_calls(self, function: str) -> Iterator[Event]:
        """The calls in a function that torch.compiler.disable keeps out of the region."""
        for call, target in self.project.disabled_calls(function):
            why = (f"{short(target)} is under torch.compiler.disable",)
            yield Event("effect.disabled-call", call.span, short(target), evidence=why)

    def add(
        self,
        found: dict[tuple[str, int, int], Finding],
        facts: ModuleFacts,
        events: Iterable[Event],
        region: Region | None,
    ) -> None:
        """Findings for the events that are confirmed; the first at a place and code stays."""
        for event in events:
            rule = self.rule_of(event)
            if rule is None:
                continue
            by_hand = region is not None and region.captured
            if by_hand and not (_matters_in_capture(rule) and event.waits):
                continue
            key = (rule.code, event.span.line, event.span.column)
            missing = [need for need in event.needs if not self.project.confirmed(need)]
            if key in found or any(need.kind != "away" for need in missing):
                continue
            if missing:  # every caller passes a tensor of the host
                event = event._replace(notes=(*event.notes, ("lives", "host")))
            if region is not None and any(need.kind == "may" for need in event.needs):
                region = self.project.region(region.function, event.needs) or region
            finding = self.finding(facts, event, rule, region)
            if by_hand or not event.lives_on_host or finding.consequences["compile"] != "ok":
                found[key] = finding

    def finding(
        self, facts: ModuleFacts, event: Event, rule: Rule, region: Region | None
    ) -> Finding:
        """What a rule says about an event."""
        by_hand = region is not None and region.captured
        form = None
        if not by_hand:
            form = form_of(rule.code, event, self.options.target_torch)
        consequences = _consequences(rule, event, form, by_hand)
        message = rule.captured if by_hand else rule.message
        if event.lives_on_host:
            message = _ON_HOST
        elif event.note("pinned") == "no":
            message = _UNPINNED
        return Finding(
            code=rule.code,
            name=rule.name,
            message=message.format(subject=event.subject),
            filename=facts.path,
            location=Location(event.span.line, event.span.column + 1),
            end_location=Location(event.span.end_line, event.span.end_column + 1),
            region=region,
            evidence=event.evidence,
            only_if=event.arms,
            consequences=consequences,
            gb_type=form.gb_type if form is not None else "",
            gb_id=form.gb_id if form is not None else "",
            preview=rule.status == "preview",
            event=event,
            view=replace(self.project.view(facts), closed=self.options.closed),
        )


def _stays(finding: Finding, event: Event, called: bool) -> bool:
    """Whether a finding of a region says more than an event of a training loop: its code is
    certainly compiled or captured, or is ``called`` by a loop. There, of a tensor made from data
    and copied, the copy is what the step waits for.
    """
    if finding.region is None or finding.region.certain:
        return True
    made = finding.event is not None and finding.event.kind == "host.data-tensor"
    return called and not (made and event.kind == "loop.copy")


def _matters_in_capture(rule: Rule) -> bool:
    """Whether a rule has a consequence where a graph is captured without tracing."""
    return rule.consequences["cudagraph"] != "ok" or rule.consequences["sync"] == "yes"


def _consequences(rule: Rule, event: Event, form: Form | None, by_hand: bool) -> dict[str, str]:
    """What follows from an event, of a recorded form where there is one; ``by_hand``: in a graph
    that is captured without tracing.
    """
    found = dict(rule.consequences)
    if form is not None:
        found |= {"compile": form.compile, "fullgraph": form.fullgraph}
    if by_hand:  # nothing is traced
        found |= {"compile": "ok", "fullgraph": "ok"}
    if event.note("whole") == "yes":
        found["fullgraph"] = "ok"  # a list of unknown numbers
    if event.note("decides") == "yes" and found["compile"] == "break":
        found["fullgraph"] = "error"  # which way the program goes is not known
    stays = event.note("stays") == "yes" and not by_hand  # nothing is copied here
    if stays or not event.waits:
        found["sync"] = "no"
        read = event.lives_on_host or event.kind in MADE
        if read and found["cudagraph"] == "not capturable":
            # What the host read in the capture stays.
            always = "yes" in (event.note("fixed"), event.note("constant"))
            found["cudagraph"] = "ok" if always else "stale"
    return found


_BOUND = re.compile(r"(>=|<=|<|>)\s*([\d.]+)")
_SIGNS = {">=": operator.ge, "<=": operator.le, "<": operator.lt, ">": operator.gt}


@lru_cache(maxsize=256)
def version_allows(requirement: str, version: str) -> bool:
    """Whether torch ``version`` (``2.13``) satisfies ``>=2.11`` or ``>=2.11,<2.14``."""
    actual = version_numbers(version)
    bounds = _BOUND.findall(requirement)
    return all(_SIGNS[sign](actual, version_numbers(bound)) for sign, bound in bounds)
