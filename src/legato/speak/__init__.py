"""Speech rendered from a frozen voice's state: text leads, the harness speaks, a small head renders."""
