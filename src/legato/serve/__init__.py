"""What Legato shows in a browser or over HTTP: the listening sheet. The only room with web libraries."""
