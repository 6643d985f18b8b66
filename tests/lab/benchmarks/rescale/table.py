"""The measurements as Markdown, and whether the targets are met."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from tests.lab.benchmarks.rescale.case import Found
from tests.lab.benchmarks.rescale.measurements import P95, Estimate, Repeat, median, percentile, ratio

FLINK: Final = "Flink"

PEERS: Final = {", Kubernetes,": ", standalone,"}
"""Part of a title -> part of the title of the case beside it, where no Flink is measured."""

SMALL, LARGE = "10,000 keys", "1,000,000 keys"

DEAD_S: Final = {("tier 1", SMALL): 0.1, ("tier 1", LARGE): 0.1, ("tier 2", SMALL): 3.0, ("tier 2", LARGE): 1.0}
"""Longest dead time that is aimed at, at p95."""

DELAY_RATIO: Final = 1.2
"""Of the worst record delay at a rescale of tier 0 to that in steady running, at most."""

EFFECT_RATIO: Final = 2.0
"""Of the time to effect of tier 1 to Flink's, at most."""

MET, NOT_MET, NOT_JUDGED = "met", "**not met**", "not judged"


def tables(found: Sequence[Found]) -> Iterator[str]:
    """All of them."""
    yield from costs(found)
    yield ""
    yield from delays(found)
    yield ""
    yield from results(found)
    yield ""
    yield from targets(found)


def costs(found: Sequence[Found]) -> Iterator[str]:
    """How long no batch ran, and until the new slots were used."""
    peers = _peers_name(found)
    yield f"| | repeats | batches missed, median (most) | dead time (s) | p95 (s) | {peers} | time to effect, up (s) | time until the slots were available (s) | {peers} |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for each in found:
        if not each.repeats:
            yield f"| {each.title} | not measured: {each.error} |" + " |" * 7
            continue
        peer, missed, dead, up = peer_of(found, each), _missed(each), _dead(each), going_up(each)
        cells = [
            str(len(each.repeats)),
            f"{median(missed).value:.0f} ({max(missed):.0f})",
            _estimate(median(dead)),
            f"{percentile(dead, P95):.2f}",
            _ratio(each, peer, _dead),
            _estimate(median([it.effect_s for it in up])) if up else "",
            f"{median([it.slot_s for it in up]).value:.2f}" if up else "",
            _ratio(each, peer, _effects),
        ]
        yield f"| {each.title} | {' | '.join(cells)} |"


def delays(found: Sequence[Found]) -> Iterator[str]:
    """How old records were at most when they came out."""
    peers = _peers_name(found)
    yield f"| worst record delay | at a rescale (s) | longest of all (s) | in steady running (s) | to steady running | {peers} at a rescale | batch or checkpoint every (s) |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    ways = [way for each in found for way in directions(each)]
    for each in ways:
        worst, steady, peer = _delays(each), _steady(each), peer_of([*found, *ways], each)
        cells = [
            _estimate(median(worst)),
            f"{max(worst):.2f}",
            _estimate(median(steady)),
            _text_of(ratio(worst, steady)),
            _ratio(each, peer, _delays),
            f"{each.period_s:.2f}",
        ]
        yield f"| {each.title} | {' | '.join(cells)} |"


def results(found: Sequence[Found]) -> Iterator[str]:
    """Whether what came out is right."""
    yield "| results | records | lost | duplicated | checksum of all counts | load before | |"
    yield "|---|---:|---:|---:|---|---:|---|"
    for each in found:
        if each.checksum:
            numbers = f"{each.rows:,} | {each.lost} | {each.duplicated} | `{each.checksum}` | {each.load:.1f}"
            yield f"| {each.title} | {numbers} | {each.error} |"


def targets(found: Sequence[Found]) -> Iterator[str]:
    """Each target, and whether it is met."""
    yield "| target | found | |"
    yield "|---|---|---|"
    for each in found:
        if each.repeats:
            yield from _targets_of(each, peer_of(found, each))
    yield _right(found)


def _targets_of(each: Found, peer: Found | None) -> Iterator[str]:
    name, size = each.title.partition(",")[0], each.title.rpartition(", ")[2]
    if name.startswith("tier 0"):
        yield _no_batch_missed(each)
        yield from map(_no_worse_delay, directions(each))
    if (most := DEAD_S.get((name, size))) is not None:
        worst = percentile(_dead(each), P95)
        yield _row(f"{each.title}: dead time <= {most:g} s at p95", f"{worst:.2f} s", _judged(worst <= most))
    if name == "tier 1" and not _is_beside_another(each):
        yield from _beside_flink(each, peer)


def _no_batch_missed(each: Found) -> str:
    missed = _missed(each)
    some = sum(number > 0 for number in missed)
    text = "none" if not some else f"{some} of {len(missed)} rescales, at most {max(missed):.0f} batch(es)"
    return _row(f"{each.title}: no batch missed", text, _judged(not some))


def _no_worse_delay(each: Found) -> str:
    target = f"{each.title}: worst record delay <= {DELAY_RATIO:g} x that in steady running"
    return _row(target, *_ratio_judged(ratio(_delays(each), _steady(each)), DELAY_RATIO))


def _beside_flink(each: Found, peer: Found | None) -> Iterator[str]:
    dead, effect = "dead time at p95 not above Flink's", f"time to effect <= {EFFECT_RATIO:g} x Flink's"
    if peer is None:
        yield from (_row(f"{each.title}: {it}", "Flink was not measured", NOT_JUDGED) for it in (dead, effect))
        return
    ours, theirs = percentile(_dead(each), P95), percentile(_dead(peer), P95)
    yield _row(f"{each.title}: {dead}", f"{ours:.2f} s, Flink {theirs:.2f} s", _judged(ours <= theirs))
    yield _row(f"{each.title}: {effect}", *_ratio_judged(ratio(_effects(each), _effects(peer)), EFFECT_RATIO))


def _ratio_judged(found: Estimate | None, most: float) -> tuple[str, str]:
    return f"x {_text_of(found)}", NOT_JUDGED if found is None else _judged(found.low <= most)


def _right(found: Sequence[Found]) -> str:
    target = "0 lost, 0 duplicated, equal counts"
    checked = [each for each in found if each.checksum]
    sums = {each.title.partition(", ")[2]: {it.checksum for it in checked if _same_size(it, each)} for each in checked}
    wrong = sum(each.lost + each.duplicated for each in checked)
    records = sum(each.rows for each in checked)
    if not checked:
        return _row(target, "nothing was measured", NOT_JUDGED)
    met = wrong == 0 and all(len(some) == 1 for some in sums.values())
    return _row(target, f"{wrong} of {records:,} records in {len(checked)} runs", _judged(met))


def peer_of(found: Sequence[Found], each: Found) -> Found | None:
    """The case with which a case is compared: the same tier on the other cluster, otherwise Flink."""
    for part, other in PEERS.items():
        if part in each.title:
            title = each.title.replace(part, other)
            return next((it for it in found if it.title == title and it.repeats), None)
    return flink_of(found, each)


def _is_beside_another(each: Found) -> bool:
    return any(part in each.title for pair in PEERS.items() for part in pair)


def _peers_name(found: Sequence[Found]) -> str:
    return "to standalone" if any(map(_is_beside_another, found)) else "to Flink's"


def flink_of(found: Sequence[Found], each: Found) -> Found | None:
    """Flink's measurements with the same amount of state; None without such measurements, and for Flink itself."""
    peers = [it for it in found if it.title.startswith(FLINK) and it.repeats and _same_size(it, each)]
    return peers[0] if peers and not each.title.startswith(FLINK) else None


def directions(each: Found) -> list[Found]:
    """The rescales to fewer slots and those to more, which cost differently; all as they are where the slots stay."""
    if not _changes_slots(each):
        return [each] if each.repeats else []
    ways = {"down": [it for it in each.repeats if it.slots == 1], "up": going_up(each)}
    return [replace(each, title=f"{each.title}, {way}", repeats=tuple(its)) for way, its in ways.items() if its]


def going_up(each: Found) -> list[Repeat]:
    """The rescales to more slots; where nothing but the driver or the state changes, to as many as before, all."""
    return [it for it in each.repeats if it.slots > 1] if _changes_slots(each) else list(each.repeats)


def _changes_slots(each: Found) -> bool:
    return not each.title.startswith(("tier 2", "tier 3"))


def _same_size(one: Found, other: Found) -> bool:
    return one.title.partition(", ")[2] == other.title.partition(", ")[2]


def _missed(each: Found) -> list[float]:
    return [float(it.missed) for it in each.repeats]


def _dead(each: Found) -> list[float]:
    return [it.dead_s for it in each.repeats]


def _effects(each: Found) -> list[float]:
    return [it.effect_s for it in going_up(each)]


def _delays(each: Found) -> list[float]:
    return [it.delay_s for it in each.repeats]


def _steady(each: Found) -> list[float]:
    return [it.steady_delay_s for it in each.repeats]


def _ratio(each: Found, peer: Found | None, of: Callable[[Found], Sequence[float]]) -> str:
    return _text_of(ratio(of(each), of(peer))) if peer is not None and of(each) and of(peer) else ""


def _estimate(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} ({estimate.low:.2f} - {estimate.high:.2f})"


def _text_of(estimate: Estimate | None) -> str:
    return "" if estimate is None else _estimate(estimate)


def _judged(met: bool) -> str:
    return MET if met else NOT_MET


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
