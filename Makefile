# onceledger needs Go, git and make; everything else these targets install.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

DATA ?= .data
ARGS ?=
PKG ?= ./...
MINUTES ?= 5
SEED ?= 0

# What has dependencies that users of the packages need not have.
MODULES := bench test/torture

GOLANGCI_LINT_VERSION := v2.15.0
NATS_CLI_VERSION := v0.5.0

.PHONY: help run test demo model torture torture-smoke torture-bites reliability bench bench-full bench-smoke growth
.PHONY: build build-bench build-torture lint fmt vet fmt-check go-test setup setup-test tools clean

help: ## Print this help
	@echo "usage: make TARGET"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | while IFS=$$'\t' read -r name text; do printf '  %-10s %s\n' "$$name" "$$text"; done

run: setup build ## Install what is missing, build, and run everything here (DATA=.data)
	@exec .bin/onceledger up --data $(DATA) $(ARGS)

# With -k a fault of the linter does not hide those of the tests.
test: setup-test ## Install what is missing and run every check and test (PKG=./...)
	@$(MAKE) --no-print-directory -k fmt-check vet lint model go-test bench-smoke torture-smoke

demo: setup build ## 20,000 deliveries with resends, conflicts and a killed worker, counted to the cent
	@exec .bin/onceledger demo $(ARGS)

bench: setup build-bench ## Measure receiver and worker here; under 5 minutes (ARGS="-json FILE")
	@exec .bin/bench $(ARGS)

bench-full: setup build-bench ## Measure everything, up to ten million events; about an hour, 20 GB of disk
	@exec .bin/bench -full $(ARGS)

bench-smoke: setup build-bench ## Run the benchmark at its smallest, to see that it works
	@exec .bin/bench -short

growth: setup ## Predict larger systems, check against measurement, write docs/growth.md
	@cd bench && go run ./cmd/growth -update ../docs/growth.md $(ARGS)

build-bench:
	@mkdir -p .bin
	@cd bench && go build -o ../.bin/bench .

torture: setup build-torture ## Kill, freeze and cut everything while providers send (MINUTES=5 SEED=0 ARGS="-plan cluster")
	@exec .bin/torture -minutes $(MINUTES) -seed $(SEED) $(ARGS)

torture-smoke: setup build-torture
	@exec .bin/torture -minutes 1.5

torture-bites: setup build-torture ## Break the product in five ways, and see that the torture test finds each
	@scripts/bites $(ARGS)

reliability: build-torture ## Renew the figures of docs/reliability.md from test/torture/results
	@exec .bin/torture -publish docs/reliability.md -out test/torture/results

build-torture:
	@mkdir -p .bin
	@cd test/torture && go build -o ../../.bin/torture .

build: ## Build the three programs into .bin
	@go build -o .bin/onceledger ./cmd/onceledger
	@go build -o .bin/onceledger-receiver ./cmd/receiver
	@go build -o .bin/onceledger-worker ./cmd/worker

lint: tools ## Run golangci-lint
	@.bin/golangci-lint run
	@for module in $(MODULES); do (cd $$module && $(CURDIR)/.bin/golangci-lint run --config $(CURDIR)/.golangci.yml); done

fmt: ## Format the Go code
	@gofmt -w .

vet:
	@go vet ./...
	@for module in $(MODULES); do (cd $$module && go vet ./...); done

fmt-check:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted; run make fmt:"; echo "$$unformatted"; exit 1; fi

# One package at a time: several measure how long something takes, and two of them
# on two processors disturb each other. The modules' tests read the product's sources,
# which the cache of results does not know.
go-test: tools
	@go test -race -p 1 -timeout 30m $(PKG)
	@for module in $(MODULES); do (cd $$module && go test -count=1 ./...); done

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
