"""Two texts of MLIR beside each other."""

from nvdsl_command.side_by_side import side_by_side

BEFORE = """\
a
b
c
  %0 = x.load %arg0
  %1 = x.gone %0
  %2 = x.keep %0
  %3 = x.end
  %4 = x.behind
  %5 = x.last"""
AFTER = """\
a
b
c
  %0 = x.load %arg0
  %1 = x.keep %0
  %new = x.more %1
  %9 = x.end
  %8 = x.behind
  %7 = x.last"""


def test_lines_that_differ_stand_beside_each_other_and_names_count_for_nothing():
    assert side_by_side(BEFORE, AFTER, 49).splitlines() == [
        "...                       ...",
        "c                         c",
        "  %0 = x.load %arg0         %0 = x.load %arg0",
        "  %1 = x.gone %0        <",
        "  %2 = x.keep %0            %1 = x.keep %0",
        "                        >   %new = x.more %1",
        "  %3 = x.end                %9 = x.end",
        "  %4 = x.behind             %8 = x.behind",
        "...                       ...",
    ]


def test_what_is_alike_is_left_out_and_what_is_long_is_cut():
    assert side_by_side(BEFORE, BEFORE, 80) == "(nothing differs)"
    assert side_by_side("x" * 60, "y" * 60, 43) == "x" * 19 + "… | " + "y" * 19 + "…"
