"""The best policies for risk measures of all kinds."""
