# One image for every paylatch process: serve, worker, migrate and the tools are sub-commands of one binary.
FROM golang:1.26.8-bookworm AS build

WORKDIR /src

# The modules change seldom: they are a layer of their own.
COPY go.mod go.sum ./
RUN go mod download

COPY . .
# timetzdata: bill dates are counted in the channel's time zone, and the image below has no zone files.
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags timetzdata -ldflags='-s -w' -o /out/paylatch ./cmd/paylatch

# Not distroless: compose's health checks run inside the container, and paylatch has no probe command of its own. Alpine's
# busybox brings the wget that they use; paylatch itself needs no shell.
FROM alpine:3.24.2

COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/paylatch /usr/local/bin/paylatch

# A number, so that a platform that demands a non-root user can see that it is one.
USER 65532:65532

EXPOSE 8080 8081
ENTRYPOINT ["/usr/local/bin/paylatch"]
CMD ["--help"]
