"""The voice's evidence: sentences said once by head and by depth, heard, measured, sealed, reported and promoted."""
