"""A fleet's needs in addition to its replicas, and their presentation."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.fleet.__main__ import markdown
from bench.fleet.measured.calibrate import calibrate
from bench.fleet.parts import Costs, need
from bench.fleet.plots import line_plot
from bench.fleet.simulated.step_model import StepModel, StepTable, load_table
from service.engine.interface.config import EngineConfig
from service.settings.bundled_models import DEMO_FOLDER


def test_parts_are_counted_by_what_they_cost() -> None:
    """10 replicas with 7 requests per second of 100 events have 7,000 events of 100 µs, which use 70 % of a core."""
    costs = Costs(gateway_event=100.0, envoy_event=200.0, service_event=1000.0, store_request=50.0, health_check=100.0)
    needs = need(10, 7.0, 100.0, costs)
    assert (needs.requests_per_s, needs.events_per_s) == (70, 7000)
    assert (needs.gateways, needs.envoy_cores) == (1, 2)
    assert needs.service_loop == pytest.approx(0.7)
    assert needs.store == pytest.approx(0.0035)
    assert needs.health_checks == pytest.approx(0.0001)


def test_a_plot_has_a_line_for_each_name_on_one_scale() -> None:
    """The highest value is drawn at the top, and half of it in the middle."""
    svg = ET.fromstring(line_plot("Title", "load", {"a & b": [(0, 0), (1, 10)], "c": [(0, 5), (1, 5)]}))  # noqa: S314  our own output
    paths = [each.get("d") for each in svg.iter("{http://www.w3.org/2000/svg}path") if each.get("stroke")]
    assert paths == ["M60.0 256.0L560.0 36.0", "M60.0 146.0L560.0 146.0"]
    assert "a & b" in [each.text for each in svg.iter("{http://www.w3.org/2000/svg}text")]


def test_a_table_is_markdown() -> None:
    assert markdown([{"way": "x", "good": 0.98765, "requests": 12345}]) == (
        "| way | good | requests |\n|---|---|---|\n| x | 0.988 | 12,345 |"
    )


def test_step_times_are_interpolated_between_measurements(tmp_path: Path) -> None:
    """Times are linear between and beyond points; a mixed step has the cost of a prompt's first token only once."""
    table = StepTable("hand", ((1, 0.010), (3, 0.014)), ((1, 0.005), (101, 0.025)), context=100, context_s=1e-5)
    table.save(tmp_path / "table.json")
    model = StepModel(load_table(tmp_path / "table.json"))
    assert model.table == table
    assert model.seconds(2, 0, 200) == pytest.approx(0.012)
    assert model.seconds(5, 0, 500) == pytest.approx(0.018)
    assert model.seconds(2, 0, 300) == pytest.approx(0.013)
    assert model.seconds(0, 51) == pytest.approx(0.015)
    assert model.seconds(2, 51, 200) == pytest.approx(0.012 + 0.015 - 0.005)


@pytest.mark.slow
def test_a_models_steps_are_measured() -> None:
    """Each number of sequences and tokens that fits is measured, and larger ones take longer."""
    table = calibrate(str(DEMO_FOLDER), EngineConfig(num_blocks=300, max_batch_sequences=8))
    assert [number for number, _ in table.decode] == [1, 2, 4, 8]
    assert [number for number, _ in table.prefill] == [1, 64, 128, 256, 512, 1024, 2048]
    assert table.prefill[-1][1] > table.prefill[0][1]
    assert (table.num_blocks, table.block_size, table.context) == (300, 16, 512)
