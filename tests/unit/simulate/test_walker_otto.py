"""Walker & Otto's machine, fitted to few processes and simulated on more: what benchmarks/walker_otto_simulated.py prints."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
import walker_otto_simulated as study


@pytest.mark.parametrize(("machine", "within"), [("Paragon", 0.15), ("SP-1", 0.30)])
def test_what_few_processes_say_of_many(machine: str, within: float) -> None:
    fit, printed = study.fitted(machine), study.PRINTED[machine]
    ratios = {}
    for at, P in enumerate(study.PROCESSES):
        there, at_once = study.milliseconds(
            study.all_to_all(P), fit.machine(P, fit.all_to_all), list(study.ALL_TO_ALL.values())
        )
        both = [
            study.milliseconds(study.redistribution(P, K), fit.machine(P, fit.blocks), study.METHODS[-1:])[0]
            for K in (2, 20)
        ]
        assert at_once == pytest.approx(there, rel=0.01)  # start-ups go one after another either way
        for simulated, name in zip((there, *both), ("alltoall", 2, 20), strict=True):
            assert abs(simulated / printed[name][at] - 1) < within
        ratios[P] = both[0] / there
    assert ratios[3] > ratios[10] > ratios[16] > 1 > ratios[64]  # Table 1: K = 2 is ahead on 64 processes alone


def test_messages_and_bytes_are_those_of_the_paper() -> None:
    P, K, startup, rate = 32, 4, 1e-3, 1e6
    machine = study.Fit(startup, rate, rate).machine(P, rate)
    (seconds,) = study.milliseconds(study.redistribution(P, K), machine, study.METHODS[-1:])
    assert seconds == pytest.approx(1e3 * (K * startup + 4 * study.ELEMENTS / rate))
    (seconds,) = study.milliseconds(study.all_to_all(P), machine, ["ring/sendrecv"])
    assert seconds == pytest.approx(1e3 * (P - 1) * (startup + 4 * study.ELEMENTS / P / rate))


def test_the_orders_of_figure_12(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = tmp_path / "a" / "picture.png"
    monkeypatch.setattr(sys, "argv", ["walker_otto_simulated.py", "--most", "10", "--plot", str(picture)])
    study.main()
    text = capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| 10 |")]
    assert len(rows) == 1 + len(study.FACTORS)
    for row in rows[1:]:
        times = dict(zip(study.METHODS, map(float, row[2:]), strict=True))
        assert all(math.isfinite(time) for time in times.values())
        assert 1.5 < times["phases/synchronized"] / times["phases/nonblocking"] < 3.5
        assert times["walker-otto/sendrecv"] <= times["walker-otto/synchronized"] < times["random/synchronized"] + 1e-9
