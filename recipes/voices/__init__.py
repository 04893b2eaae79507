"""Voices for spoken questions: who speaks (catalogue, engines), what happens to the sound (conditions), how it is kept
(shards). Build-time recipe code, never imported by the `legato` package."""
