"""The sources of events: GitHub and Jira, by polls (LIFE-7) and by webhooks; Slack, by its events."""
