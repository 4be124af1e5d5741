"""`foretold covers` says by its exit code whether a machine reaches what it covers."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cli.command import foretold

SHOP = Path(__file__).parents[1] / "spec" / "machine" / "covered_shop.py"


def test_exit_codes(tmp_path: Path) -> None:
    """0 covered, 4 with a table of gaps, 1 if a run fails, 2 for what is no machine."""
    shutil.copy(SHOP, tmp_path / "shop.py")
    covered = foretold(tmp_path, "covers", "shop:Orders", "--seed", "1")
    assert covered.code == 0
    assert "All is covered: 4 operations" in covered.out
    gaps = foretold(tmp_path, "covers", "shop:NoCancel", "--seed", "1", "--runs", "20")
    assert gaps.code == 4
    assert "DELETE /orders/{order_id}     20         0          0  <- nothing" in gaps.out
    assert "- operation DELETE /orders/{order_id} was asked for by no rule" in gaps.out
    assert gaps.out.rstrip().endswith("1 gap: 4 operations, 1 strategy compared with models, "
                                      "20 runs, seed 1.")  # fmt: skip
    assert foretold(tmp_path, "covers", "shop:Fails", "--seed", "1").code == 1
    refused = foretold(tmp_path, "covers", "shop:without", "--seed", "1")
    assert (refused.code, "does not say what it covers" in refused.err) == (2, True)
