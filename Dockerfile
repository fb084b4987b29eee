# One image holds the three programs; the command chooses:
# onceledger-receiver, onceledger-worker or onceledger. Static binaries, no shell, not root.
#
#   docker build --build-arg VERSION=v1.2.3 -t onceledger .

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=""
ENV CGO_ENABLED=0
ENV LDFLAGS="-s -w -X github.com/onceledger/onceledger/internal/telemetry.version=${VERSION}"
RUN go build -trimpath -ldflags "$LDFLAGS" -o /out/onceledger ./cmd/onceledger
RUN go build -trimpath -ldflags "$LDFLAGS" -o /out/onceledger-receiver ./cmd/receiver
RUN go build -trimpath -ldflags "$LDFLAGS" -o /out/onceledger-worker ./cmd/worker

# Busybox is static too; under this name it is wget and nothing else, for the
# health checks of a container.
FROM busybox:1.37-musl AS probe

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=probe /bin/busybox /usr/local/bin/wget
COPY --from=build /out/ /usr/local/bin/
USER 65532:65532
# Webhooks; then the admin ports of receiver and worker, for the inside only.
EXPOSE 8080 9080 9081
CMD ["onceledger", "--help"]
