"""The judge: sealed finals, raw records, and numbers that re-derive from them. It never trains."""
