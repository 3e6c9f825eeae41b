"""Shows a report: as text in a terminal, as HTML in a notebook. Floor: front."""
