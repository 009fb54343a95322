# The daily commands. `make run` and `make test` install what they need on Debian 12 with Swift 6.2 or later.

SHELL := /bin/bash
export SWIFT ?= swift
STATE ?= $(shell mktemp -d -t healthrelay.XXXXXX)
EPISODES ?= 30
KILLS ?= 300
FILES ?= 1000
DAYS ?= 365
GATEWAYS ?= 1000
LISTEN ?= 127.0.0.1:8480
SIZES ?= 10000 100000 1000000

BUILD_PACKAGES := libdbus-1-dev libbluetooth-dev libdeflate-dev libmosquitto-dev libnfc-dev libpcsclite-dev libpq-dev libqrencode-dev \
	librabbitmq-dev librsvg2-dev libsqlite3-dev libssl-dev libxml2-dev zlib1g-dev
TEST_PACKAGES := chromium dbus tshark python3-venv curl influxdb iproute2 mosquitto openssl pcscd postgresql rabbitmq-server \
	vsmartcard-vpcd udev victoria-metrics
FLEET_PACKAGES := mosquitto nats-server openssl postgresql rabbitmq-server

.PHONY: help run fleet fleet-engine build docs test deb deb-previous test-deb test-upgrade test-home-assistant test-trials test-embedding test-fleet test-fleet-short test-lab-13 test-arm64 soak soak-year test-release fuzz hostile sanitize bench bench-decade bench-growth bench-idle bench-age format lint fixtures deps test-deps clean

help:
	@echo "make run      build, replay the recorded meters and deliver to a sandbox server, a file and an MQTT broker"
	@echo "make fleet    show three simulated gateways that post to a collector over HTTPS;  make fleet-engine  the same through three"
	@echo "              nodes of RabbitMQ, two collectors and PostgreSQL"
	@echo "make test     build and run every test"
	@echo "make deb      build the Debian packages;  make test-deb  install, use and remove them in a fresh Debian 12 and 13"
	@echo "make test-upgrade  upgrade version 0.1.0's package to this one, go back and forth again, and kill the gateway at each change of a"
	@echo "              file while it migrates the store (make deb-previous builds that package once; needs the repository's history)"
	@echo "make soak     fail every file operation, cut the power at every moment (an hour), then kill the gateway and fail"
	@echo "              its servers for long (EPISODES=30, ten lives each; KILLS=300 with every kind of destination), then play a year"
	@echo "make soak-year  play a home's year with a fast clock: meters, a sensor, failing servers; count every reading, and measure"
	@echo "              the growth of memory, descriptors and files (two hours or more; DAYS=30 takes some minutes, SEED repeats a run,"
	@echo "              with FROM=2027-10-18 it begins then)"
	@echo "make test-home-assistant  show the recorded meters in a real Home Assistant (needs Python 3.12)"
	@echo "make test-fleet  1,000 simulated gateways at three RabbitMQ nodes, PostgreSQL and two collectors: kill each of them, lose"
	@echo "              the disks, and count what is stored; then three NATS nodes, and the operator's page, command by command,"
	@echo "              also with RabbitMQ 4 (as root, with debootstrap; GATEWAYS=1000)"
	@echo "make test-fleet-short  the short trials with 60 gateways, in about two minutes"
	@echo "make test-lab-13  run every test of the Bluetooth lab against Debian 13's BlueZ and kernel (make test: against Debian 12's)"
	@echo "make test-arm64  build modules' tests for arm64 with Debian unstable's Swift, and run them there; on another machine under qemu,"
	@echo "              some hours the first time (as root, with mmdebstrap; MODULES=\"HCIMonitor GATTProfiles\", JOBS=2)"
	@echo "make test-trials  run the unit tests with every trial of each property, of which a debug build otherwise makes a fifth"
	@echo "make test-embedding  build and run two of the examples outside the repository, as an application that embeds the library would"
	@echo "make fuzz     fuzz every parser of outside bytes and the live sockets, a minute each (SECONDS_EACH=60)"
	@echo "make hostile  open damaged and hostile files with every command (FILES=1000), and a large unfinished erasure"
	@echo "make sanitize run the tests under AddressSanitizer with its search for leaks, and under ThreadSanitizer"
	@echo "make bench    measure speed and memory beside their floors"
	@echo "make bench-decade  measure bytes and work with stores of a home that have grown for ten years (SIZES=\"10000 100000 1000000\";"
	@echo "              10000000 takes another hour and 12 GB)"
	@echo "make bench-idle  measure an idle gateway whose page is open, for an hour (MINUTES=60)"
	@echo "make bench-age  all three and make soak-year, and then one table: each bar of Documentation/performance.md about age, and whether"
	@echo "              it is kept (Benchmarks/bars.py prints what was measured last)"
	@echo "make bench-growth  measure how work grows with records, event streams, readers, devices and strangers that advertise"
	@echo "              (half an hour; PARTS=\"devices strangers\")"
	@echo "make docs     build the reference documentation of the library into .build/reference"
	@echo "make format   format the Swift code;  make lint  check it, and the manifest"
	@echo "make fixtures record the fixtures again in the Bluetooth lab"

run: deps
	@Packaging/quiet-build healthrelay healthrelay-nfc
	@Packaging/show $(STATE) Fixtures/*.btsnoop

fleet: deps
	@Packaging/quiet-build healthrelay-collector
	@.build/debug/healthrelay-collector demo --stay

fleet-engine: deps
	@Packaging/install-packages $(FLEET_PACKAGES)
	@Packaging/quiet-build healthrelay healthrelay-collector
	@Packaging/show-fleet

build: deps
	@$(SWIFT) build

docs: build
	@Documentation/build-reference

test: deps
	@Tests/run

deb: deps
	@Packaging/install-packages dpkg-dev libcurl4-openssl-dev python3
	@Packaging/build-deb
	@Packaging/build-collector-deb

test-deb: deb
	@Packaging/install-packages debootstrap systemd-container curl iproute2 e2fsprogs python3-venv strace
	@Tests/Package/run
	@HEALTHRELAY_DEBIAN=13 Tests/Package/run
	@Tests/Package/collector
	@Tests/Package/radio

deb-previous: deps
	@Packaging/install-packages dpkg-dev libcurl4-openssl-dev
	@Packaging/build-previous-deb

test-upgrade: deb-previous deb
	@Packaging/install-packages debootstrap systemd-container curl iproute2
	@Tests/Package/upgrade

soak: deps
	@$(SWIFT) build -q --product healthrelay
	@Tests/Faults/inject all
	@Tests/Faults/run $(EPISODES)
	@Tests/Faults/everywhere $(KILLS)
	@Tests/Year/run $(or $(DAYS),365) $(SEED) $(if $(FROM),--from $(FROM))

soak-year: deps
	@$(SWIFT) build -q --product healthrelay
	@Tests/Year/run $(or $(DAYS),365) $(SEED) $(if $(FROM),--from $(FROM))

test-release: deps
	@$(SWIFT) test -c release --package-path Tests/ReleaseDecoding --scratch-path .build-release

test-home-assistant: deps
	@Packaging/install-packages mosquitto python3-venv
	@$(SWIFT) build -q --product healthrelay
	@Tests/HomeAssistant/run

test-fleet: deps
	@Packaging/install-packages $(FLEET_PACKAGES)
	@Packaging/quiet-build healthrelay healthrelay-collector
	@Tests/Fleet/run --gateways $(GATEWAYS)
	@Tests/Fleet/run-nats
	@Tests/Fleet/follow-page
	@Tests/Fleet/run-rabbitmq-4 || [ $$? = 69 ]

test-fleet-short: deps
	@Packaging/install-packages $(FLEET_PACKAGES)
	@Packaging/quiet-build healthrelay healthrelay-collector
	@Tests/Fleet/run --short

test-lab-13: deps test-deps
	@HEALTHRELAY_LAB_DEBIAN=13 Tests/Lab/run-tests

test-arm64:
	@Packaging/install-packages mmdebstrap
	@BUILD_PACKAGES="$(BUILD_PACKAGES)" Tests/Arm64/run $(MODULES)

test-trials: deps test-deps
	@HEALTHRELAY_TRIALS=all $(SWIFT) test --skip LabTests --skip NeighbourTests --skip WebhookReceiverTests

test-embedding: deps
	@HEALTHRELAY_EXAMPLES=1 $(SWIFT) build -q
	@Tests/Embedding/run --outside

fuzz: deps
	@Tests/Fuzz/run $(SECONDS_EACH)
	@Tests/Fuzz/live $(SECONDS_EACH)

hostile: deps
	@$(SWIFT) build -q --product healthrelay
	@Tests/Faults/hostile --count $(FILES)
	@Tests/Faults/unfinished-erasure

sanitize: deps test-deps
	@Tests/Sanitize/run

bench: deps
	@Benchmarks/run

bench-decade: deps
	@Benchmarks/Decade/run.sh $(SIZES)

bench-growth: deps
	@Benchmarks/Growth/run.sh $(PARTS)

bench-idle: deps
	@Benchmarks/Idle/run.sh $(MINUTES)

bench-age: bench-decade bench-growth bench-idle soak-year
	@Benchmarks/bars.py

format:
	@$(SWIFT) format format -i -r -p Package.swift Sources Tests Benchmarks Examples

lint:
	@$(SWIFT) format lint -r -p --strict Package.swift Sources Tests Benchmarks Examples && echo "lint: clean"
	@Tests/Manifest/check

fixtures:
	@Tests/Lab/record-fixtures

deps:
	@Packaging/install-packages $(BUILD_PACKAGES)

test-deps:
	@Packaging/install-packages $(TEST_PACKAGES)

clean:
	@rm -rf .build .build-deb-previous .build-release .build-bench .build-bench-static .build-bench-cli .build-fuzz .build-address .build-thread .build-embedding .build-arm64 .venv Tests/Schemas/.venv Tests/HomeAssistant/.venv Tests/Formats/.venv Tests/Webhooks/.venv Benchmarks/Page/.venv
