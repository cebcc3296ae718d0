"""What has happened in a session of the proxy: events, logs, notifications, timers."""
