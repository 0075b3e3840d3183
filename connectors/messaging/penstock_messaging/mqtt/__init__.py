"""MQTT 5: messages of topics as rows, and rows as messages."""
