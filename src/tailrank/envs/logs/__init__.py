"""Tables of past episodes: `read` takes them from files and data frames, `EpisodeLog` is what they become."""
