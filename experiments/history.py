"""Must corruption be announced? The head's past is corrupted in training either way; it is told how much, or not.

    python experiments/history.py --tap TAP --runs RUNS --recogniser FOLDER [--steps N]

Result: history.json beside this file. How: `heads`.
"""

from pathlib import Path

import heads

if __name__ == "__main__":
    variants = {"announced": {}, "unannounced": {"announced": False}}
    heads.compare(Path(__file__).with_suffix(".json"), __doc__, variants)
