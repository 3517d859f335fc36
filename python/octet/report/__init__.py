"""The report: one self-contained HTML page and PNGs from stored results.

    python -m octet.report results/benchmarks/*.json results/accuracy/*.json --output report

Needs matplotlib (`pip install 'octet[report]'`); reading results and taking figures' data from them does not.
"""

from .documents import Document, ReportError, read, read_all
from .figures import Figure, digest, figures_of

__all__ = ["Document", "Figure", "ReportError", "digest", "figures_of", "read", "read_all"]
