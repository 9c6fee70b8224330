"""The page served while a run goes on."""
