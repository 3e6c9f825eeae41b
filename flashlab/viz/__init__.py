"""Pictures, one a file: a pure data function, a thin view, a static fallback. Floor: front."""
