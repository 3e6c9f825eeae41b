"""Chapter 12: the capstone. Its claims stand in the files of chapters 05 (A17) and 07 (A26)."""

CLAIMS = ()
