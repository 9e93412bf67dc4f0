"""`pyscalapack-redist plan`: time and memory of a redistribution, and the steps of each order of its messages. Needs no MPI.

It begins with a verdict, from the bytes and messages of the busiest rank. With --orders there is a plan on paper for each order
and for each way of `via=`; their figures are printed, and written as JSON.
"""

from __future__ import annotations

import json
import math
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import schedules
from ..distributed_array import plan as make_plan
from ..drawing.figures import number_cells
from ..engine.panels import PANELS
from ..errors import DescriptorError, ScheduleError
from ..exchanges.exchange import MEMORY_LIMIT
from ..layout.waypoints import VIAS
from ..schedules import Schedule
from ..schedules.catalogue import check_name
from ..schedules.layout_orders import is_by_formula
from ..schedules.orders import Order, Scheduled
from .arguments import UsageError, case_without_copies, check_outputs, write_text, written
from .cases import Case
from .text import console, count_text, new_table, print_line, print_table, ratio_text, size_text, time_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Figures = dict[str, Any]
# Limits on pairs of processes: in an order whose steps are listed; along a dimension if steps are searched for, and in all if
# each process has an order of its own.
MOST_PAIRS, MOST_SEARCHED = 2**24, 2**20
ABOVE_LIMIT = 1.5  # the most that a redistribution has taken of the links' limit, measured and simulated (docs/expect.md)
MOST_LISTED = 32  # processes on a side of a schedule whose messages are written, and runs of steps that are printed
ABOUT_ORDERS = (
    "orders; cost: bytes of each step's longest message, added up; time: in lock step, steps times latency and the cost"
)
ABOUT_WAYS = (
    "ways of via=, all legs together; fewest steps: of any one-port order; busiest rank: bytes that one rank sends or receives "
    "in each leg, added up; time: of these"
)
OF_A_PRODUCT = "each dimension"  # begins a certificate that is not of the whole
ABOUT_PRODUCTS = (
    f'"{OF_A_PRODUCT}": the order is a product of one for each dimension, and so is the certificate; the least '
    "cost of the whole may be far lower"
)
OF_ORDERS = ("messages", "steps", "cost", "one_port", "seconds", "certificate", "reason")
COLUMNS_OF_ORDERS = ("messages", "steps", "cost", "of the busiest rank", "one-port", "time", "certificate")
COLUMNS_OF_WAYS = ("legs", "messages", "bytes", "of direct", "fewest steps", "busiest rank", "time")


class NodeLinks:
    """Links between nodes, for predicted times.

    Parameters
    ----------
    rate : float or None
        Bytes per second that a node can send, and at the same time receive; its ranks share it. None for no times.
    latency : float
        Seconds of a message.
    slots : int
        Ranks on each node.
    """

    def __init__(self, rate: float | None = None, latency: float = 0.0, slots: int = 1) -> None:
        self.slots, self._rate, self._latency = slots, rate, latency

    @property
    def are_known(self) -> bool:
        """Whether there are times."""
        return self._rate is not None

    def seconds(self, steps: int, nbytes: int) -> float | None:
        """Time of a number of steps in which a rank has so many bytes in all."""
        return None if self._rate is None else steps * self._latency + nbytes * self.slots / self._rate

    def seconds_of_node(self, nbytes: int) -> float | None:
        """Time of so many bytes on the link of one node."""
        return None if self._rate is None else nbytes / self._rate


def _busiest_node(case: Case, axes: Sequence[tuple[Any, Any]], busiest: int, slots: int) -> int | None:
    """The most bytes that a node, of so many consecutive ranks, sends to others, or gets from them; None if pairs are many."""
    if slots == 1 or slots >= case.ranks:
        return busiest if slots == 1 else 0
    if case.before.size * case.after.size > MOST_SEARCHED:
        return None
    senders, receivers, lengths = schedules.whole([schedules.between(*pair) for pair in axes]).messages
    nodes = (senders + case.before.first) // slots, (receivers + case.after.first) // slots
    leaves = nodes[0] != nodes[1]
    totals = np.zeros((2, case.ranks // slots + 1), np.int64)
    for total, side in zip(totals, nodes, strict=True):
        np.add.at(total, side[leaves], lengths[leaves])
    return int(totals.max()) * case.dtype.itemsize


def facts(case: Case, links: NodeLinks, overwrite: bool = False) -> Figures:
    """Bytes, messages, memory and time of a redistribution, in whatever order its messages go.

    Parameters
    ----------
    case : Case
        Array and layouts.
    links : NodeLinks
        For times.
    overwrite : bool
        Whether the memory is that of a redistribution that consumes A.
    """
    item, uncounted, totals = case.dtype.itemsize, None, None
    a, b = (layout.descriptor(case.shape, None) for layout in (case.before, case.after))
    try:
        totals = make_plan(a, b, schedule="caterpillar").report(case.dtype)
    except ScheduleError as error:
        uncounted = str(error)
    busiest = totals and max(totals.most_sent, totals.most_received)
    axes = [*zip(a.distributions, b.distributions, strict=True)]
    of_node = None if busiest is None else _busiest_node(case, axes, busiest, links.slots)
    most_of_node = busiest and busiest * links.slots if of_node is None else of_node  # as if all messages left the node
    limit = None if most_of_node is None else links.seconds_of_node(most_of_node)
    latency = None if totals is None else links.seconds(totals.most_messages, 0)
    of_rank = [layout.largest_part(case.shape) * item for layout in (case.before, case.after)]
    of_rank.append(min(MEMORY_LIMIT, sum(of_rank) if totals is None else totals.most_sent + totals.most_received))
    in_all = sum(of_rank)
    if overwrite:  # A and B together as long as B fills as A empties, panel by panel
        in_all += max(of_rank[:2]) // PANELS - min(of_rank[:2])
    return {
        **case.to_dict(),
        "bytes": case.elements * item,
        "uncounted": uncounted,
        "messages_between_ranks": totals and totals.sends,
        "bytes_between_ranks": totals and totals.bytes_sent,
        "most_messages": totals and totals.most_messages,
        "busiest_bytes": busiest,
        "busiest_node_bytes": of_node,
        "limit": limit,
        "latency": latency,
        "memory": {
            **dict(zip(("a", "b", "staging"), of_rank, strict=True)),
            "overwrite": overwrite,
            "rank": in_all,
            "slots": links.slots,
            "node": in_all * min(links.slots, case.ranks),
        },
    }


def study(
    case: Case, name: str, time_limit: float, links: NodeLinks, messages: int | None
) -> tuple[Figures, list[Schedule]]:
    """Figures of all orders and ways of a redistribution on paper, and the steps of the order to show.

    Parameters
    ----------
    case : Case
        Array and layouts.
    name, time_limit : str, float
        The schedule to show, and the seconds of its search.
    links : NodeLinks
        For times.
    messages : int, optional
        Number of messages, if it is known.

    Raises
    ------
    ScheduleError
        The schedule to show does not apply.
    """
    item = case.dtype.itemsize
    a, b = (layout.descriptor(case.shape, None) for layout in (case.before, case.after))
    most = max(
        before.processes * after.processes for before, after in zip(a.distributions, b.distributions, strict=True)
    )
    orders: list[Figures] = []
    shown: list[Schedule] = []
    for schedule_name in schedules.NAMES:
        figures: Figures = {"name": schedule_name, **dict.fromkeys(OF_ORDERS)}
        orders.append(figures)
        if most > MOST_SEARCHED and not is_by_formula(schedule_name):
            figures["reason"] = f"left out: it needs a table of all pairs, {most:,} along a dimension"
            continue
        try:
            order = make_plan(a, b, schedule=schedule_name).schedule
            parts = _parts(order, case, time_limit if schedule_name == name else 1.0)
        except ScheduleError as error:
            if schedule_name == name:
                raise
            figures["reason"] = str(error)
            continue
        figures |= {"messages": messages, **_figures(order, parts, item, links)}
        if order.name != schedule_name:
            figures["reason"] = f"its steps take too long to find: the order is {order.name}"
        shown = parts if schedule_name == name else shown
    return {
        "schedule": name,
        "orders": orders,
        "ways": [_way(a, b, via, case, links) for via in (None, *VIAS)],
        "steps": [[np.asarray(step).tolist() for step in part.steps] for part in shown if _is_small(part)],
    }, shown


def _figures(order: Order, parts: list[Schedule], item: int, links: NodeLinks) -> Figures:
    """Steps and cost of an order: products over the dimensions."""
    if not parts:
        return {"steps": order.number_of_steps, "one_port": order.one_port}
    steps = math.prod(part.number_of_steps for part in parts)
    cost = math.prod(part.total_cost for part in parts) * item
    certificate = "; ".join(dict.fromkeys(part.certificate for part in parts))
    if len(parts) > 1:
        certificate = f"{OF_A_PRODUCT}: {certificate}"
    figures = {"steps": steps, "cost": cost, "one_port": order.one_port, "certificate": certificate}
    return {**figures, "seconds": links.seconds(steps, cost)}


def _parts(order: Order, case: Case, time_limit: float) -> list[Schedule]:
    """The schedules of an order: one for each dimension, or one for all ranks; none if there are too many pairs."""
    if isinstance(order, Scheduled):
        parts = list(order.parts)
        if order.name == "optimal" and time_limit != 1:
            parts = [schedules.build(order.name, part.grid, time_limit=time_limit) for part in parts]
        return parts if all(part.grid.P * part.grid.Q <= MOST_PAIRS for part in parts) else []
    before, after = case.before, case.after
    if before.size * after.size > (MOST_PAIRS if order.one_port else MOST_SEARCHED):
        return []
    a, b = (layout.descriptor(case.shape, None).distributions for layout in (before, after))
    ranks = before.first + np.arange(before.size) - after.first
    same = np.where((ranks >= 0) & (ranks < after.size), ranks, -1)
    return [schedules.build(order.name, schedules.whole([*map(schedules.between, a, b)], same))]


def _way(a: Any, b: Any, via: str | None, case: Case, links: NodeLinks) -> Figures:
    """Figures of one way of `via=`, all legs together."""
    names = ("legs", "messages", "bytes", "fewest_steps", "busiest_bytes", "seconds")
    try:
        report = make_plan(a, b, schedule="caterpillar", via=via).report(case.dtype)
    except (ScheduleError, DescriptorError) as error:
        return {"via": via, **dict.fromkeys(names), "reason": str(error)}
    legs = [report] if via is None else report.legs
    steps = sum(leg.most_messages for leg in legs)
    busiest = sum(max(leg.most_sent, leg.most_received) for leg in legs)
    moved = sum(leg.sends for leg in legs), sum(leg.bytes_sent for leg in legs)
    figures = (len(legs), *moved, steps, busiest, links.seconds(steps, busiest))
    return {"via": via, **dict(zip(names, figures, strict=True)), "reason": None}


def _is_small(part: Schedule) -> bool:
    return max(part.grid.P, part.grid.Q) <= MOST_LISTED


# -- text


def _show(case: Case, document: Figures, shown: list[Schedule] | None) -> None:
    """Print the verdict, and the figures of all orders and ways if there are steps."""
    out = console()
    for line in _verdict(case, document):
        print_line(out, line)
    if shown is None:
        print_line(out, "more: --orders has the orders of the messages with their steps and bounds, and the ways of via=")
        return
    for line in (*_bounds(document), "", ABOUT_ORDERS):
        print_line(out, line)
    table = new_table(("order",), COLUMNS_OF_ORDERS)
    for order in document["orders"]:
        figures = [_number(order[key]) for key in ("messages", "steps", "cost")]
        ratio = _ratio(order["cost"], document["busiest_bytes"])
        one_port = {True: "yes", False: "no", None: "-"}[order["one_port"]]
        words = order["certificate"] or ("see below" if order["reason"] else "-")
        table.add_row(order["name"], *figures, ratio, one_port, _time(order["seconds"]), words)
    print_table(out, table)
    if any((order["certificate"] or "").startswith(OF_A_PRODUCT) for order in document["orders"]):
        print_line(out, ABOUT_PRODUCTS)
    lines = [f"{order['name']}: {order['reason']}" for order in document["orders"] if order["reason"]]
    for k, part in enumerate(shown):
        lines += ["", *_step_lines(part, f"dimension {k}: " if len(shown) > 1 else "")]
    for line in (*lines, "", ABOUT_WAYS):
        print_line(out, line)
    table = new_table(("way",), COLUMNS_OF_WAYS)
    names = ["direct" if way["via"] is None else f'via "{way["via"]}"' for way in document["ways"]]
    for name, way in zip(names, document["ways"], strict=True):
        figures = [_number(way[key]) for key in ("legs", "messages", "bytes", "fewest_steps", "busiest_bytes")]
        figures.insert(3, _ratio(way["bytes"], document["ways"][0]["bytes"]))
        table.add_row(name, *figures, _time(way["seconds"]))
    print_table(out, table)
    for name, way in zip(names, document["ways"], strict=True):
        if way["reason"]:
            print_line(out, f"{name}: {way['reason']}")


def _verdict(case: Case, document: Figures) -> Iterator[str]:
    """How long it takes, how much memory, and what limits it."""
    yield f"plan: {case}"
    memory = document["memory"]
    time, limited_by = _time_and_limit(case, document)
    yield f"time: {time}"
    yield f"limited by: {limited_by}"
    a, b, staging, of_rank = (size_text(memory[part]) for part in ("a", "b", "staging", "rank"))
    bound = "at most" if memory["staging"] == MEMORY_LIMIT else "about"
    together = ", as B takes the place of A" if memory["overwrite"] else ""
    yield f"memory of a rank: {of_rank}: A {a}, B {b}, staging {bound} {staging}{together}"
    yield f"memory of a node with {count_text(min(memory['slots'], case.ranks), 'rank')}: {size_text(memory['node'])}"
    total, moved = document["bytes"], document["bytes_between_ranks"]
    yield f"array: {total:,} bytes ({size_text(total)})"
    if moved is None:
        yield f"between ranks: not counted: {document['uncounted']}"
    else:
        messages = count_text(document["messages_between_ranks"], "message")
        yield f"between ranks: {moved:,} bytes in {messages}; copied on their rank: {total - moved:,} bytes"


def _time_and_limit(case: Case, document: Figures) -> tuple[str, str]:
    limit, latency, slots = document["limit"], document["latency"], document["memory"]["slots"]
    busiest, most = document["busiest_bytes"], document["most_messages"]
    of_node = document["busiest_node_bytes"]
    if busiest is None:
        return "unknown", "unknown: the messages are too many to count"
    if not busiest:
        return "that of copies: nothing goes between ranks", "the memory of each rank"
    if of_node == 0:
        why = "the ranks are on one node" if slots >= case.ranks else "no message leaves a node"
        return f"that of one to two copies of the local arrays, all at once: {why}", "the memory of the node"
    link = f"the link of a node: {busiest:,} bytes of the busiest rank"
    if slots > 1:
        link = f"the link of a node, which {slots} ranks share: {_of_link(document)}"
    if limit is None:
        ask = "give --rate, what a node can send, as 100gbit, and --slots, the ranks of a node"
        return f"unknown: {ask}; on one node, one to two copies of the local arrays", link
    if latency > limit:
        link = f"the latency of messages: a rank has up to {most:,}"
    most_time = _time(ABOVE_LIMIT * limit + latency)
    return f"at most {most_time}" if of_node is None else f"{_time(limit + latency)} to {most_time}", link


def _of_link(document: Figures) -> str:
    """What the link of the busiest node carries; messages within it count where which these are is not known."""
    slots, of_node = document["memory"]["slots"], document["busiest_node_bytes"]
    if of_node is None:
        return f"at most {slots} times the {document['busiest_bytes']:,} bytes of the busiest rank"
    return "the bytes of the busiest rank" if slots == 1 else f"the {of_node:,} bytes of the busiest node to or from others"


def _bounds(document: Figures) -> Iterator[str]:
    if document["bytes_between_ranks"] is not None:
        yield (
            f"the busiest rank sends or receives {document['busiest_bytes']:,} bytes, and one at most "
            f"{count_text(document['most_messages'], 'message')}: no one-port order has fewer steps"
        )
    if document["limit"] is not None:
        yield f"links' limit: {_time(document['limit'])}, for {_of_link(document)}"


def _step_lines(part: Schedule, prefix: str) -> Iterator[str]:
    """Messages and cost of each step; consecutive equal steps share a line."""
    yield (
        f"{prefix}{part.name}: {count_text(part.number_of_steps, 'step')}, cost {part.total_cost:,} elements; "
        f"{part.certificate}"
    )
    runs: list[tuple[int, int, tuple[int, int]]] = []
    for number, (step, cost) in enumerate(zip(part.steps, part.costs.tolist(), strict=True)):
        same = bool(runs) and runs[-1][2] == (len(step), cost)
        first = runs.pop()[0] if same else number
        runs.append((first, number, (len(step), cost)))
    for first, last, (messages, cost) in runs[:MOST_LISTED]:
        steps = f"step {first}" if first == last else f"steps {first} to {last}, each"
        yield f"  {steps}: {count_text(messages, 'message')}, cost {cost:,}" if messages else f"  {steps}: empty"
    if len(runs) > MOST_LISTED:
        yield f"  ... {count_text(len(runs) - MOST_LISTED, 'more line')} left out"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _ratio(value: int | None, of: int | None) -> str:
    return ratio_text(value / of if value is not None and of else None)


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else time_text(seconds)


# -- as a picture: the pairs of processes coloured by step, and the length of every message in its step

MOST_DRAWN = 512
MOST_NUMBERED = 32  # processes on a side of a grid with numbers in its cells
MOST_BARS = 400  # places for messages drawn one by one
CELL = 0.3  # inches
EMPTY = "#f2f2f2"


def _draw(case: Case, name: str, parts: Sequence[Schedule], path: str) -> None:
    """Write the picture of an order's steps to a file, in the format that its name ends in.

    Raises
    ------
    UsageError
        There are too many processes.
    OSError, ValueError
        The file cannot be written, or there is no such format.
    """
    from matplotlib.figure import Figure

    sides = [(part.grid.P, part.grid.Q) for part in parts] or [(case.before.size, case.after.size)]
    if max(map(max, sides)) > MOST_DRAWN:
        pairs = " and ".join(f"{P} x {Q}" for P, Q in sides)
        raise UsageError(
            f"--plot: the steps of {name} are of {pairs} pairs: at most {MOST_DRAWN} processes on a side can be drawn; omit "
            "--plot, or take fewer processes"
        )
    heights, widths = ([1.3 + CELL * min(max(n, 8), MOST_NUMBERED) for n in side] for side in zip(*sides, strict=True))
    ratios = {"width_ratios": [max(widths), 7.5], "height_ratios": heights}
    figure = Figure(figsize=(max(widths) + 7.5, 0.6 + sum(heights)), layout="constrained")
    for k, (part, (left, right)) in enumerate(
        zip(parts, figure.subplots(len(parts), 2, squeeze=False, gridspec_kw=ratios), strict=True)
    ):
        colours = _colours(part)
        _draw_pairs(left, part, colours, f"dimension {k}: " if len(parts) > 1 else "")
        _draw_steps(right, part, colours)
    figure.suptitle(f"{case.array}, {case.before} -> {case.after}, schedule {name}", fontsize=11)
    figure.savefig(path, dpi=150)


def _colours(schedule: Schedule) -> Any:
    from matplotlib import colormaps

    return colormaps["viridis"](np.linspace(0.05, 0.95, max(1, schedule.number_of_steps)))


def _draw_pairs(axes: Axes, schedule: Schedule, colours: Any, prefix: str) -> None:
    from matplotlib.colors import to_rgba

    P, Q = schedule.grid.P, schedule.grid.Q
    image = np.tile(np.array(to_rgba(EMPTY)), (P, Q, 1))
    cells: dict[tuple[int, int], str] = {}
    for number, step in enumerate(schedule.steps):
        for p, q, _ in np.asarray(step).tolist():
            if (p, q) in cells:
                cells[p, q] = f"{cells[p, q].removesuffix(',..')},.."
            else:
                cells[p, q], image[p, q] = str(number), colours[number]
    axes.imshow(image, aspect="equal" if max(P, Q) <= 4 * min(P, Q) else "auto", interpolation="nearest")
    if max(P, Q) <= MOST_NUMBERED:
        number_cells(axes, cells, image)
        axes.set_xticks(range(Q), map(str, range(Q)), fontsize=7)
        axes.set_yticks(range(P), map(str, range(P)), fontsize=7)
        axes.tick_params(length=0)
    axes.set_xlabel("receiver")
    axes.set_ylabel("sender")
    axes.set_title(f"{prefix}step of each pair, the first where there are several", fontsize=9)


def _draw_steps(axes: Axes, schedule: Schedule, colours: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    costs = schedule.costs.tolist()
    lengths = [np.sort(np.asarray(step).reshape(-1, 3)[:, 2])[::-1] for step in schedule.steps]
    slots = max((length.size for length in lengths), default=1) or 1
    axes.bar(range(len(costs)), costs, 0.88, color=EMPTY, edgecolor="grey", linewidth=0.6)
    if slots * len(lengths) <= MOST_BARS:
        for number, length in enumerate(lengths):
            at = number - 0.42 + 0.84 * (np.arange(length.size) + 0.5) / slots
            axes.bar(at, length, 0.84 / slots * 0.8, color=colours[number])
        what = "each bar a message in its step; the frame is the step's cost"
    else:
        axes.bar(range(len(costs)), [length.mean() if length.size else 0 for length in lengths], 0.88, color=colours)
        what = "coloured: the mean message of each step; grey: the step's cost"
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("step")
    axes.set_ylabel("elements")
    axes.spines[["top", "right"]].set_visible(False)
    steps = f"{count_text(schedule.number_of_steps, 'step')}, cost {schedule.total_cost}: {schedule.certificate}"
    axes.set_title(f"{steps}\n{what}", fontsize=9)


# -- the command


def read_schedule(name: str) -> str:
    """A schedule's name as the command line gives it; raises ScheduleError where there is none."""
    check_name(name)
    return name


def plan(options: Namespace) -> int:
    """Show what a redistribution takes.

    Parameters
    ----------
    options : Namespace
        The command line: shape, before, after, dtype, orders, schedule, time_limit, rate, latency, slots, json, plot.

    Returns
    -------
    int
        Exit status 0.

    Raises
    ------
    UsageError
        It cannot be done as asked.
    """
    case = case_without_copies(options, "plan")
    check_outputs(options, "plan")
    links = NodeLinks(options.rate, options.latency, options.slots)
    document, shown, name = facts(case, links, options.overwrite), None, options.schedule or "optimal"
    with_orders = options.orders or options.schedule is not None
    if with_orders or options.json or options.plot:
        try:
            messages = document["messages_between_ranks"]
            figures, shown = study(case, name, options.time_limit, links, messages)
        except ScheduleError as error:
            raise UsageError(f"--schedule {name}: {error}") from None
        document |= figures
    if options.json:
        write_text("--json", options.json, json.dumps(document, indent=1))
    if options.plot and shown is not None:
        with written("--plot", options.plot):
            _draw(case, name, shown, options.plot)
    _show(case, document, shown if with_orders else None)  # last: whoever reads the output may stop, as head does
    return 0
