"""The report: `record.py` holds it, `build.py` says what is told in which order, the rest are renderings.

Text and HTML walk the same tree of parts (`parts.py`). Nothing is counted or priced here.
"""
