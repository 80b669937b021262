"""One capture from its command line to its ``capture.json``, whatever happens in between."""
