from pathlib import Path
from xml.etree import ElementTree

from roost_train.selector.training_report import chart, write_training_report


def test_the_page_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    lines = {
        "validation": [{"iteration": 0, "to_teacher": 1.01}, {"iteration": 4, "to_teacher": 0.97}],
        "iteration": [
            {"number": 1, "mean_jct_s": 5.0, "entropy": 1, "divergence": 0, "explained_frac": 0}
        ],
    }
    write_training_report(tmp_path / "report.html", {"trace": "a<b"}, lines)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "a&lt;b" in page
    assert "0.97" in page
    for loader in ("http:", "https:", "src=", "<script", "@import", "<link"):
        assert loader not in page


def test_a_chart_shows_every_point_inside_its_frame() -> None:
    points = [(0.0, 2.0), (5.0, -1.0), (10.0, 4.0)]
    svg = ElementTree.fromstring(chart("curve", points).partition("</h2>")[2])
    dots = [one for one in svg if one.tag == "circle"]
    places = [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in dots]
    assert all(0 < x < 640 and 0 < y < 200 for x, y in places)
    assert places[2][1] < places[0][1] < places[1][1]
    assert [x for x, _ in places] == sorted(x for x, _ in places)


def test_without_points_there_is_no_chart_and_one_point_is_enough() -> None:
    assert chart("curve", []) == ""
    assert chart("curve", [(1.0, 0.0)]).count("<circle") == 1


def test_labels_stay_inside_the_frame() -> None:
    points = [(0.0, 38_430.0), (1.0, 999_999.0), (2.0, -3.97e7), (3.0, 0.0003569)]
    for point in points:
        svg = ElementTree.fromstring(chart("curve", [point]).partition("</h2>")[2])
        labels = [one for one in svg if one.attrib.get("text-anchor") == "end"]
        assert labels
        for one in labels:  # a digit of the page's font takes 7 of the width
            assert float(one.attrib["x"]) >= 7 * len(one.text or "")
