# Tools are pinned here and run without being installed.
STATICCHECK   = honnef.co/go/tools/cmd/staticcheck@v0.8.2
WORKFLOWCHECK = go.temporal.io/sdk/contrib/tools/workflowcheck@v0.6.0

.PHONY: help run test chaos check fmt lint determinism fuzz compose-config

help: ## Show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

run: ## Run everything on this machine and play the demo (Ctrl-C stops it)
	go run ./cmd/paylatch dev

test: ## Run all tests with the race detector, on a real PostgreSQL and a real Temporal server
	go run ./cmd/paylatch prepare
	go test -race -timeout 30m ./...

chaos: ## Kill processes and servers under load, then compare the books with what was sent (FOR=10m, SEED=42)
	go run ./cmd/paylatch chaos $(if $(FOR),--for $(FOR)) $(if $(SEED),--seed $(SEED))

check: fmt lint determinism ## Check formatting, vet, lint and the determinism of the workflows

fmt:
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted (run gofmt -w):"; echo "$$files"; exit 1; fi

lint:
	go vet ./...
	go run $(STATICCHECK) ./...

determinism:
	go run $(WORKFLOWCHECK) ./workflows

fuzz: ## Fuzz each parser for a short while
	go test -run '^$$' -fuzz FuzzParse -fuzztime 10s ./internal/channel/standard
	go test -run '^$$' -fuzz FuzzParse -fuzztime 10s ./internal/channel/stripe
	go test -run '^$$' -fuzz FuzzParse -fuzztime 10s ./internal/channel/alipay
	go test -run '^$$' -fuzz FuzzParse -fuzztime 10s ./internal/channel/wechatpay
	go test -run '^$$' -fuzz FuzzVerify -fuzztime 10s ./internal/channel/stripe
	go test -run '^$$' -fuzz FuzzVerify -fuzztime 10s ./internal/channel/wechatpay
	go test -run '^$$' -fuzz FuzzCheck -fuzztime 10s ./internal/strictjson

compose-config: ## Let the compose tool read docker-compose.yml
	@sed -E 's/^([A-Z_]+)=$$/\1=x/' deploy/env.example > .env.check
	@docker-compose --env-file .env.check -f docker-compose.yml config -q && echo "docker-compose.yml is well-formed"; s=$$?; rm -f .env.check; exit $$s
