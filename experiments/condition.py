"""Must the condition modulate? The head's condition scales, shifts and gates every layer, or is one more input.

    python experiments/condition.py --tap TAP --runs RUNS --recogniser FOLDER [--steps N]

Result: condition.json beside this file. How: `heads`.
"""

from pathlib import Path

import heads

if __name__ == "__main__":
    variants = {"modulated": {}, "one more input": {"modulated": False}}
    heads.compare(Path(__file__).with_suffix(".json"), __doc__, variants)
