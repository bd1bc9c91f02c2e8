"""Where events come from: GitHub and Jira, asked (LIFE-7) or calling."""
