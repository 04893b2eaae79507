"""The pocket family: small trained organs behind the same protocols as the real checkpoints."""
