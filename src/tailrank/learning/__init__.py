"""From episodes to a policy: ELA, ELLA and the rivals."""
