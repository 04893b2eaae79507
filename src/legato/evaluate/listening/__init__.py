"""Blind A/B listening sheets: `make` draws one up, `sheet` guards it, `votes` collects, `verdict` unblinds. No web."""
