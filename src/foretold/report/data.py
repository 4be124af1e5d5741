"""What programs read: the outcome of a search as plain data, for `--json`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from foretold.report.text import notes_on, place_text, replay_arguments
from foretold.search.failures.failure import Failure, Outcome
from foretold.search.planning.feedback import Coverage
from foretold.story.signature import text_of


def outcome_json(outcome: Outcome, *, target: str, exit_code: int) -> str:
    """One object, indented; keys stay as they are from one version to the next."""
    failure = outcome.failure
    data = {
        "target": target,
        "verdict": "violated" if failure else "vacuous" if outcome.is_vacuous else "held",
        "exit_code": exit_code,
        "seed": outcome.seed,
        "runs": outcome.runs,
        "virtual_s": outcome.virtual_s,
        "reached": outcome.reached,
        "never_true": outcome.missed,
        "notes": notes_on(outcome),
        "covered": outcome.covered,
        "failure": _failure_data(failure, target) if failure is not None else None,
        "failures": [_failure_data(each, target) for each in outcome.failures],
        "elapsed_s": round(outcome.elapsed_s, 3),
        "interrupted": outcome.interrupted,
        "coverage": _coverage_data(outcome.coverage),
        "worker_notes": outcome.worker_notes,
        "vacuity": [each.as_data() for each in outcome.hollow],
        "hints": [each.as_data() for each in outcome.hints],
        "tally": {
            sort: {name: asdict(each) for name, each in getattr(outcome.tally, sort).items()}
            for sort in ("rules", "invariants", "faults", "operations")
        },
        "goes_together": {
            ": ".join(failure.signature): [
                {"setting": each.setting, "failing": each.failing, "share": each.share, "p": each.p}
                for each in outcome.swarm.together_with(failure.signature)
            ]
            for failure in outcome.failures
        },
    }
    return json.dumps(data, indent=2)


def history_data(outcome: Outcome) -> dict[str, Any]:
    """What is remembered of a search."""
    return {
        "seed": outcome.seed,
        "runs": outcome.runs,
        "elapsed_s": round(outcome.elapsed_s, 3),
        "coverage": _coverage_data(outcome.coverage),
        "failures": [
            {"kind": each.signature.kind, "place": each.signature.place, "times": each.times}
            for each in outcome.failures
        ],
    }


def _coverage_data(coverage: Coverage) -> dict[str, Any]:
    return {
        "reached": coverage.reached,
        "new_per_1000_runs": coverage.growth,
        "expected_new_per_run": coverage.per_run if coverage.is_estimable else None,
        "unseen_at_least": coverage.unseen if coverage.is_estimable else None,
    }


def _failure_data(failure: Failure, target: str) -> dict[str, Any]:
    settings = failure.tape.settings
    return {
        "exception": type(failure.exception).__name__,
        "message": text_of(failure.exception),
        "place": place_text(failure.exception),
        "run": failure.run,
        "first_only": failure.first_only,
        "times": failure.times,
        "configuration": failure.configuration,
        "seed": failure.seed,
        "order": settings.get("order"),
        "strategy": settings.get("strategy"),
        "stock_asyncio": failure.stock_asyncio,
        "stock_reason": failure.stock_reason,
        "stock_tries": failure.stock_tries,
        "reproduced": failure.reproduced,
        "doubt": failure.doubt,
        "shrink_runs": failure.shrink_runs,
        "delays": [
            {
                "actor": delay.actor,
                "step": delay.step,
                "location": str(delay.location) if delay.location else None,
                "until": delay.until,
            }
            for delay in failure.delays
        ],
        "faults": failure.faults,
        "story": failure.story.text,
        "pair": failure.story.to_dict()["pair"],
        "calls": list(failure.story.calls),
        "tape": str(failure.saved_as) if failure.saved_as else None,
        "replay": f"foretold replay {replay_arguments(failure, target)}",
    }
