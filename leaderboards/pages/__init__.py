"""The static pages of the leaderboards, written from verified files alone."""
