package integration

// base is what the systems of all tests have in common: a source whose bodies
// say which transfer they ask for, and Stripe's endpoints for both modes.
const base = `
nats: {events_max_bytes: 256MiB, dlq_max_bytes: 64MiB}
retry: {attempts: 3, age: 1h, base: 50ms, cap: 100ms}
accounts:
  - {match: "purse:*", limit: debits_must_not_exceed_credits, policy: enforce}
sources:
  shop:
    provider: hmac
    secret: secret-of-the-shop
    hmac: {header: X-Signature, encoding: hex, algorithm: sha256}
    id: body:id
    type: body:type
    rules:
      - when: event.type in ["paid", "payment captured"]
        transfers:
          - {debit: body.from, credit: body.to, amount: body.amount, asset: '"EUR"', operation: 'op("payment", body.payment)'}
  stripe:
    provider: stripe
    secrets: [whsec_of_live_mode]
    rules: &charges
      - when: event.type in ["charge.succeeded", "payment_intent.succeeded", "payment captured"]
        transfers:
          - debit: '"wallet:" + body.data.object.customer'
            credit: '"merchant"'
            amount: body.data.object.amount
            asset: body.data.object.currency
            operation: op("charge", body.data.object.id)
  stripe-test:
    provider: stripe
    mode: test
    secrets: [whsec_of_test_mode]
    rules: *charges
`

// quickly is base with an ack wait short enough to meet its end in a test.
const quickly = base + `
worker: {ack_wait: 3s}
`
