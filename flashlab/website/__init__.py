"""The course as a static site: executed chapters and pages made from the code. Floor: front.

``make site`` builds it. Everything that a page needs lies beside it: no script, font, formula or
style comes from elsewhere, so that it also reads from a disk without a network.
"""
