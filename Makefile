# onceledger needs Go, git and make; everything else these targets install.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

DATA ?= .data
ARGS ?=
PKG ?= ./...

GOLANGCI_LINT_VERSION := v2.15.0
NATS_CLI_VERSION := v0.5.0

.PHONY: help run test demo model bench bench-smoke build build-bench lint fmt vet fmt-check go-test setup setup-test tools clean

help: ## Print this help
	@echo "usage: make TARGET"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | while IFS=$$'\t' read -r name text; do printf '  %-10s %s\n' "$$name" "$$text"; done

run: setup build ## Install what is missing, build, and run everything here (DATA=.data)
	@exec .bin/onceledger up --data $(DATA) $(ARGS)

# With -k a fault of the linter does not hide those of the tests.
test: setup-test ## Install what is missing and run every check and test (PKG=./...)
	@$(MAKE) --no-print-directory -k fmt-check vet lint model go-test bench-smoke

demo: setup build ## 20,000 deliveries with resends, conflicts and a killed worker, counted to the cent
	@exec .bin/onceledger demo $(ARGS)

bench: setup build-bench ## Measure receiver and worker here; takes minutes (ARGS="-json FILE")
	@exec .bin/bench $(ARGS)

bench-smoke: setup build-bench ## Run the benchmark at its smallest, to see that it works
	@exec .bin/bench -short

build-bench:
	@mkdir -p .bin
	@cd bench && go build -o ../.bin/bench .

build: ## Build the three programs into .bin
	@go build -o .bin/onceledger ./cmd/onceledger
	@go build -o .bin/onceledger-receiver ./cmd/receiver
	@go build -o .bin/onceledger-worker ./cmd/worker

lint: tools ## Run golangci-lint
	@.bin/golangci-lint run
	@cd bench && ../.bin/golangci-lint run --config ../.golangci.yml

fmt: ## Format the Go code
	@gofmt -w .

vet:
	@go vet ./...
	@if [ -f bench/go.mod ]; then cd bench && go vet ./...; fi

fmt-check:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted; run make fmt:"; echo "$$unformatted"; exit 1; fi

# One package at a time: several measure how long something takes, and two of them
# on two processors disturb each other.
go-test:
	@go test -race -p 1 -timeout 30m $(PKG)
	@if [ -f bench/go.mod ]; then cd bench && go test ./...; fi

setup: ## Install Postgres and Redis where they are missing
	@scripts/setup run

setup-test:
	@scripts/setup test

model: ## Check the model of the protocol with spin, and that broken ones are found
	@scripts/setup model
	@scripts/model

tools: ## Install golangci-lint and the nats command into .bin
	@scripts/tool golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint $(GOLANGCI_LINT_VERSION)
	@scripts/tool nats github.com/nats-io/natscli/nats $(NATS_CLI_VERSION)

clean: ## Remove what was built; data stays
	@rm -rf .bin
