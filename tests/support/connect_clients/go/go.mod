module driver

go 1.25.0

require github.com/go-kafka/connect v0.9.0
