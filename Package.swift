// swift-tools-version: 6.2
import PackageDescription

/// The path of libFuzzer's archive; set by `make fuzz` alone, which builds into a folder of its own.
let fuzzer = Context.environment["HEALTHRELAY_FUZZ"]

let settings: [SwiftSetting] =
    [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("MemberImportVisibility"),
    ]
    // A newer compiler or library warns of more: that stops our own CI, and nobody who builds us.
    + (Context.environment["HEALTHRELAY_STRICT"] == nil ? [] : [.treatAllWarnings(as: .error)])
    + (fuzzer == nil ? [] : [.unsafeFlags(["-O", "-sanitize=fuzzer"])])

/// Programs of a release are linked by lld where the toolchain has it (`Packaging/build-release`): what the dynamic linker reads
/// at the start is a tenth.
let linking: [LinkerSetting] =
    Context.environment["HEALTHRELAY_LLD"] == nil
    ? []
    : [
        .unsafeFlags([
            "-use-ld=lld", "-Xlinker", "-z", "-Xlinker", "pack-relative-relocs", "-Xlinker", "--no-export-dynamic",
        ])
    ]

/// Modules an embedder imports, in the order a reading passes through them.
let library = [
    "HealthReadings", "GATTClient", "GATTProfiles", "BlueZCentral", "HCIMonitor", "HCICapture", "HealthDevices",
    "DeviceReports", "FreeStyleLibre", "HealthSyncClient", "CloudSources", "ISO15693Reader", "LibreReader",
    "HealthFigures",
    "ReadingFormats", "FleetDocuments", "Languages", "ReportPages", "ReadingImport",
    "ReadingStore", "ReadingDelivery", "FleetDelivery", "VitalClient", "VitalDestination", "LocalAccess",
    "GatewaySettings",
    "GuardedServer",
    "GatewayCommands", "LocalAPI", "GatewayService",
]

func module(_ name: String, _ dependencies: [Target.Dependency] = [], resources: [Resource] = []) -> Target {
    .target(name: name, dependencies: dependencies, resources: resources, swiftSettings: settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .testTarget(
        name: name + "Tests", dependencies: [.byName(name: name)] + dependencies, swiftSettings: settings)
}

func example(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(
        name: name, dependencies: dependencies, path: "Examples/Sources/\(name)", swiftSettings: settings)
}

let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let crypto: Target.Dependency = .product(name: "Crypto", package: "swift-crypto")
let cryptoExtras: Target.Dependency = .product(name: "CryptoExtras", package: "swift-crypto")
let database: Target.Dependency = .product(name: "GRDB", package: "GRDB.swift")
/// SQLite's own interface, for statements that are bound and stepped directly.
let sqlite: Target.Dependency = .product(name: "GRDBSQLite", package: "GRDB.swift")
let httpClient: Target.Dependency = .product(name: "AsyncHTTPClient", package: "async-http-client")
let httpServer: Target.Dependency = .product(name: "Hummingbird", package: "hummingbird")
let httpServerCore: Target.Dependency = .product(name: "HummingbirdCore", package: "hummingbird")
let httpTypes: Target.Dependency = .product(name: "HTTPTypes", package: "swift-http-types")
let tls: Target.Dependency = .product(name: "NIOSSL", package: "swift-nio-ssl")
let nioCore: Target.Dependency = .product(name: "NIOCore", package: "swift-nio")
let nioPosix: Target.Dependency = .product(name: "NIOPosix", package: "swift-nio")
let nioHTTP1: Target.Dependency = .product(name: "NIOHTTP1", package: "swift-nio")
let lifecycle: Target.Dependency = .product(name: "ServiceLifecycle", package: "swift-service-lifecycle")

let package = Package(
    name: "HealthRelay",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "healthrelay", targets: ["HealthRelayCLI"]),
        .executable(name: "healthrelay-capture", targets: ["HealthRelayCapture"]),
        .executable(name: "healthrelay-nfc", targets: ["HealthRelayNFC"]),
        .executable(name: "healthrelay-report", targets: ["HealthRelayReport"]),
        .executable(name: "healthrelay-collector", targets: ["HealthRelayCollector"]),
        .library(name: "HealthRelay", targets: library),
        .library(
            name: "HealthRelayDevices",
            targets: ["HealthReadings", "HealthFigures", "GATTClient", "GATTProfiles", "BlueZCentral", "HealthDevices"]),
        .library(name: "HealthRelayStore", targets: ["HealthReadings", "ReadingStore"]),
        .library(
            name: "HealthRelayDelivery",
            targets: [
                "HealthReadings", "ReadingFormats", "FleetDocuments", "ReadingStore", "ReadingDelivery",
                "FleetDelivery", "VitalClient", "VitalDestination", "WebDestinations",
            ]),
        .library(name: "HealthRelayBus", targets: ["LibDBus"]),
        .library(
            name: "HealthRelayMQTT",
            targets: [
                "HealthReadings", "ReadingFormats", "FleetDocuments", "ReadingStore", "ReadingDelivery",
                "FleetDelivery",
                "MQTTLink", "MQTTDestinations",
            ]),
        .library(
            name: "HealthRelaySensors",
            targets: ["HealthReadings", "FreeStyleLibre", "ISO15693Reader", "LibreReader"]),
        .library(name: "HealthRelayFormats", targets: ["HealthReadings", "HealthFigures", "ReadingFormats"]),
        .library(name: "HealthRelayImport", targets: ["HealthReadings", "ReadingImport"]),
        .library(
            name: "HealthRelayDecoding",
            targets: ["HealthReadings", "GATTProfiles", "FreeStyleLibre", "HCIMonitor", "HCICapture"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .systemLibrary(name: "CDeflate", pkgConfig: "libdeflate", providers: [.apt(["libdeflate-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),

        .systemLibrary(name: "CLibCrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CTimex"),
        .systemLibrary(name: "CRowHook"),
        .systemLibrary(name: "CSpawn"),
        .systemLibrary(name: "CSandbox"),
        .systemLibrary(name: "CDBus", pkgConfig: "dbus-1", providers: [.apt(["libdbus-1-dev"])]),
        .systemLibrary(name: "CBluetooth", pkgConfig: "bluez", providers: [.apt(["libbluetooth-dev"])]),
        .systemLibrary(name: "CNFC", pkgConfig: "libnfc", providers: [.apt(["libnfc-dev"])]),
        .systemLibrary(name: "CMosquitto", pkgConfig: "libmosquitto", providers: [.apt(["libmosquitto-dev"])]),
        .systemLibrary(name: "CQRencode", providers: [.apt(["libqrencode-dev"])]),
        .systemLibrary(name: "CLibXML2", pkgConfig: "libxml-2.0", providers: [.apt(["libxml2-dev"])]),
        .systemLibrary(name: "CRSVG", pkgConfig: "librsvg-2.0", providers: [.apt(["librsvg2-dev"])]),
        .systemLibrary(name: "CPCSC", pkgConfig: "libpcsclite", providers: [.apt(["libpcsclite-dev"])]),
        .systemLibrary(name: "CPQ", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .systemLibrary(name: "CRabbitMQ", pkgConfig: "librabbitmq", providers: [.apt(["librabbitmq-dev"])]),

        module("HealthReadings", [crypto]),
        module("GATTClient", ["HealthReadings"]),
        module("GATTProfiles", ["GATTClient", "HealthReadings"]),
        module("LibDBus", ["CDBus"]),
        module("BlueZCentral", ["LibDBus", "GATTClient", "HealthReadings", logging]),
        module("MQTTLink", ["CMosquitto", "OwnThread"]),
        module("HCIMonitor"),
        module("HCICapture", ["HCIMonitor", "GATTProfiles", "GATTClient", "HealthReadings"]),
        module("HelperProcesses", ["CSpawn", "CSandbox"]),
        module("NFCPipe"),
        module("OwnThread"),
        module("ISO15693Reader", ["NFCPipe", "HelperProcesses", "OwnThread", "CPCSC"]),
        module("FreeStyleLibre", ["HealthReadings"]),
        module("LibreReader", ["FreeStyleLibre", "HealthReadings", "ISO15693Reader"]),
        module("HealthDevices", ["GATTProfiles", "GATTClient", "HealthFigures", "HealthReadings", logging]),
        module("DeviceReports", ["HCICapture", "HealthDevices", "GATTProfiles", "GATTClient", "HealthReadings"]),
        module("HealthFigures", ["HealthReadings"]),
        module("ReadingFormats", ["HealthReadings", "HealthFigures", crypto]),
        module("FleetDocuments", ["HealthReadings", crypto]),
        module(
            "Languages", ["HealthReadings"],
            resources: ["de", "fr", "es", "ar"].map { .embedInCode("Catalogues/\($0).json") }),
        module("ReportPages", ["HealthFigures", "HealthReadings", "Languages"]),
        module("ReadingImport", ["HealthReadings", "CLibXML2"]),
        module(
            "ReadingStore",
            ["CLibCrypto", "CRowHook", "HealthReadings", crypto, cryptoExtras, database, sqlite, logging]),
        module("OutgoingHTTP", ["HealthReadings", "CDeflate", httpClient, nioCore, nioPosix, nioHTTP1, tls]),
        module(
            "HealthSyncClient",
            [
                "HealthReadings", "LibDBus", "OutgoingHTTP", crypto, nioCore, nioPosix, nioHTTP1, tls,
                .product(name: "NIOTLS", package: "swift-nio"),
            ]),
        module("CloudSources", ["HealthReadings", "OutgoingHTTP", crypto, httpClient, nioHTTP1]),
        module("VitalClient", ["HealthFigures", "HealthReadings", "OutgoingHTTP", httpClient, nioHTTP1, logging]),
        module("ReadingDelivery", ["ReadingStore", "HealthReadings", lifecycle, logging]),
        module(
            "WebDestinations",
            [
                "FleetDelivery", "FleetDocuments", "ReadingDelivery", "ReadingFormats", "ReadingStore", "HealthFigures",
                "HealthReadings", "OutgoingHTTP", crypto, cryptoExtras, httpClient, nioCore, nioHTTP1, logging,
            ]),
        module(
            "FleetDelivery",
            ["FleetDocuments", "ReadingDelivery", "ReadingStore", "HealthReadings", crypto]),
        module(
            "MQTTDestinations",
            [
                "FleetDelivery", "FleetDocuments", "MQTTLink", "ReadingDelivery", "ReadingFormats", "ReadingStore",
                "HealthReadings",
                crypto, logging,
            ]),
        module(
            "VitalDestination",
            ["ReadingDelivery", "ReadingStore", "VitalClient", "HealthFigures", "HealthReadings", logging]),
        module(
            "LocalAccess",
            [
                "HealthReadings", "CQRencode", crypto, database, logging,
                .product(name: "X509", package: "swift-certificates"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ]),
        module(
            "GatewaySettings",
            [
                "HealthReadings", "Languages", "ReadingStore", "VitalClient", crypto,
                .product(name: "Yams", package: "Yams"),
            ]),
        module(
            "GuardedServer",
            [
                "GatewaySettings", "HealthReadings", "LocalAccess", httpServer, httpServerCore, httpTypes, lifecycle,
                logging, nioCore, nioPosix, nioHTTP1, tls,
                .product(name: "NIOHTTPTypes", package: "swift-nio-extras"),
                .product(name: "NIOHTTPTypesHTTP1", package: "swift-nio-extras"),
            ]),
        module(
            "GatewayCommands",
            [
                "HealthReadings", "GATTClient", "BlueZCentral", "DeviceReports", "HCICapture", "HealthDevices",
                "FreeStyleLibre",
                "ISO15693Reader", "LibreReader", "ReadingImport", "ReadingStore", "ReadingDelivery", "VitalClient",
                "VitalDestination",
                "OutgoingHTTP", "WebDestinations", "MQTTLink", "MQTTDestinations", "ReadingFormats", "HealthFigures",
                "Languages", "ReportPages", "LocalAccess", "LibDBus", "HealthSyncClient", "CloudSources",
                "GatewaySettings",
                "FleetDelivery", "FleetDocuments", "GuardedServer", "HelperProcesses",
                "CTimex", crypto, httpClient, httpServer, httpTypes, lifecycle, logging, nioCore, nioHTTP1,
                .product(name: "NIOFoundationEssentialsCompat", package: "swift-nio"),
                .product(name: "X509", package: "swift-certificates"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
            ]),
        module(
            "LocalAPI",
            [
                "HealthFigures", "HealthReadings", "GATTClient", "HealthDevices", "ReadingStore", "ReadingDelivery",
                "LocalAccess", "GatewaySettings", "GuardedServer", "GatewayCommands", "OutgoingHTTP", crypto,
                httpServer,
                httpServerCore, httpTypes,
                lifecycle,
                logging, nioCore,
                .product(name: "NIOFoundationEssentialsCompat", package: "swift-nio"),
            ],
            resources: [
                .embedInCode("Page/page.html"), .embedInCode("Page/page.css"), .embedInCode("Page/page.js"),
                .embedInCode("Page/words.js"), .embedInCode("Page/languages.js"), .embedInCode("Page/calls.js"),
                .embedInCode("Page/reports.js"), .embedInCode("Page/measure.js"),
                .embedInCode("Page/pairing.js"), .embedInCode("Page/figures.js"),
                .embedInCode("Page/wall.html"), .embedInCode("Page/wall.css"), .embedInCode("Page/wall.js"),
                .embedInCode("Page/setup.html"), .embedInCode("Page/setup.css"),
                .embedInCode("Page/setup-words.js"), .embedInCode("Page/setup.js"), .embedInCode("Page/steps.js"),
                .embedInCode("Page/lang/de.json"), .embedInCode("Page/lang/fr.json"),
                .embedInCode("Page/lang/es.json"), .embedInCode("Page/lang/ar.json"),
                .embedInCode("Page/lang/setup-de.json"), .embedInCode("Page/lang/setup-fr.json"),
                .embedInCode("Page/lang/setup-es.json"), .embedInCode("Page/lang/setup-ar.json"),
                .embedInCode("openapi.json"),
            ]),
        module(
            "GatewayService",
            [
                "HealthReadings", "GATTClient", "HealthDevices", "FreeStyleLibre", "ISO15693Reader", "LibreReader",
                "CloudSources", "ReadingStore", "ReadingDelivery",
                "LocalAccess", "LibDBus", "HelperProcesses", "GatewaySettings", "GuardedServer", "GatewayCommands",
                "LocalAPI", httpServer, lifecycle, logging, nioCore, nioPosix,
            ]),
        module(
            "VitalSandbox",
            [
                "CZlib", "OutgoingHTTP", crypto, httpClient, httpServer, httpServerCore, httpTypes, database, lifecycle,
                logging, nioCore, nioHTTP1,
            ]),
        .executableTarget(
            name: "HealthRelayCLI",
            dependencies: [
                "CloudSources", "GatewayService", "GatewayCommands", "GatewaySettings", "GATTClient", "GATTProfiles",
                "DeviceReports", "HCICapture", "HealthDevices", "HealthReadings", "FreeStyleLibre", "ISO15693Reader",
                "ReadingImport",
                "ReadingStore",
                "VitalClient", "VitalSandbox", "HelperProcesses",
                lifecycle, logging,
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: settings, linkerSettings: linking),

        module("PostgreSQLLink", ["CPQ", "OwnThread"]),
        module("AMQPLink", ["CRabbitMQ", "OwnThread"]),
        module("FleetStore", ["PostgreSQLLink", "HealthReadings", crypto, database]),
        module(
            "FleetAuthority",
            [
                "FleetDocuments", "GatewaySettings", "GuardedServer", "HealthReadings", "LocalAccess", "OutgoingHTTP",
                crypto, database, httpClient, httpServer, httpServerCore, httpTypes, lifecycle, logging, nioCore,
                nioHTTP1,
                tls,
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
                .product(name: "X509", package: "swift-certificates"),
            ]),
        module(
            "FleetCollector",
            [
                "AMQPLink", "FleetAuthority", "FleetDocuments", "FleetStore", "GatewaySettings", "GuardedServer",
                "HealthReadings", "LocalAccess", crypto, httpClient, httpServer, httpServerCore, httpTypes, lifecycle,
                logging, nioCore, nioHTTP1, tls,
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
                .product(name: "X509", package: "swift-certificates"),
                .product(name: "Yams", package: "Yams"),
            ]),
        .executableTarget(
            name: "HealthRelayCollector",
            dependencies: [
                "FleetAuthority", "FleetCollector", "FleetDocuments", "FleetStore", "GatewaySettings", "HealthReadings",
                "HelperProcesses", crypto, logging, .product(name: "UnixSignals", package: "swift-service-lifecycle"),
                .product(name: "X509", package: "swift-certificates"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: settings, linkerSettings: linking),

        .executableTarget(
            name: "HealthRelayCapture", dependencies: ["CBluetooth", "CSandbox", "HCIMonitor"], swiftSettings: settings,
            linkerSettings: linking),
        .executableTarget(
            name: "HealthRelayNFC", dependencies: ["CNFC", "CSandbox", "NFCPipe"], swiftSettings: settings,
            linkerSettings: linking),
        .executableTarget(
            name: "HealthRelayReport", dependencies: ["CRSVG", "CSandbox"], swiftSettings: settings,
            linkerSettings: linking),

        .target(name: "LogLines", dependencies: [logging], path: "Tests/LogLines", swiftSettings: settings),
        .target(
            name: "ScriptedServer", dependencies: ["CZlib", nioCore, nioPosix, nioHTTP1, tls],
            path: "Tests/ScriptedServer",
            swiftSettings: settings
        ),
        .target(name: "TestWidth", path: "Tests/TestWidth"),
        .target(name: "TestSupport", dependencies: ["TestWidth"], path: "Tests/TestSupport", swiftSettings: settings),
        .target(
            name: "DeliveryFixture",
            dependencies: [
                "FleetDelivery", "FleetDocuments", "ReadingDelivery", "ReadingStore", "HealthReadings", logging,
            ],
            path: "Tests/DeliveryFixture", swiftSettings: settings),
        .target(name: "TestBus", dependencies: ["LibDBus"], path: "Tests/TestBus", swiftSettings: settings),
        tests("HealthReadings", ["TestSupport"]),
        tests("GATTClient", ["TestSupport"]),
        tests("GATTProfiles", ["HealthReadings", "TestSupport"]),
        tests("LibDBus", ["TestBus", "TestSupport"]),
        tests(
            "BlueZCentral",
            ["LibDBus", "GATTClient", "HealthDevices", "HealthReadings", "LogLines", "TestBus", "TestSupport", logging]),
        .target(name: "TestBroker", path: "Tests/TestBroker", swiftSettings: settings),
        tests("MQTTLink", ["TestBroker", "TestSupport"]),
        tests("HCIMonitor", ["TestSupport"]),
        tests("HCICapture", ["HCIMonitor", "GATTClient", "HealthReadings", "TestSupport"]),
        tests(
            "HealthDevices",
            [
                "BlueZCentral", "HCICapture", "GATTProfiles", "GATTClient", "FreeStyleLibre", "ISO15693Reader",
                "LibreReader", "ReadingDelivery", "ReadingStore", "VitalClient", "VitalDestination", "HealthReadings",
                "LogLines", "TestSupport", logging,
            ]),
        tests(
            "DeviceReports",
            ["HCICapture", "HealthDevices", "GATTProfiles", "GATTClient", "HealthReadings"]),
        tests("HealthFigures", ["HealthReadings", "TestSupport"]),
        tests("FleetDocuments", ["HealthReadings", "TestSupport"]),
        tests("Languages", ["HealthReadings"]),
        tests("ReportPages", ["HealthFigures", "HealthReadings", "Languages"]),
        tests(
            "ReadingFormats",
            ["GATTClient", "HCICapture", "HealthDevices", "HealthFigures", "HealthReadings", "TestSupport"]),
        .testTarget(
            name: "ReadingImportTests", dependencies: ["ReadingImport", "HealthReadings"],
            exclude: ["read_export.py"], swiftSettings: settings),
        tests(
            "ReadingStore",
            [
                "CLibCrypto", "EncodedSensor", "FreeStyleLibre", "HealthReadings", "LogLines", "TestSupport", crypto,
                database, sqlite, logging,
            ]),
        tests("LocalAccess", ["LogLines", database, logging]),
        .target(
            name: "EmulatedPhone", dependencies: [crypto, nioCore, nioPosix, tls], path: "Tests/EmulatedPhone",
            swiftSettings: settings),
        .target(
            name: "EmulatedCloud", dependencies: ["ScriptedServer", crypto], path: "Tests/EmulatedCloud",
            swiftSettings: settings),
        tests("CloudSources", ["EmulatedCloud", "HealthReadings", "TestSupport"]),
        tests("HealthSyncClient", ["EmulatedPhone", "HealthReadings", "LibDBus", "TestBus", "TestSupport"]),
        tests(
            "VitalClient",
            [
                "HealthReadings", "OutgoingHTTP", "ScriptedServer", "LogLines", "TestSupport", crypto, tls, logging,
                .product(name: "X509", package: "swift-certificates"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
            ]),
        tests("ReadingDelivery", ["HealthReadings", "ReadingStore", "DeliveryFixture", "TestSupport", database]),
        tests(
            "WebDestinations",
            [
                "DeliveryFixture", "HealthReadings", "LogLines", "OutgoingHTTP", "ReadingDelivery",
                "ReadingFormats", "ReadingStore", "ScriptedServer", "TestSupport", crypto, cryptoExtras, database,
                logging, nioHTTP1, tls,
                .product(name: "X509", package: "swift-certificates"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
            ]),
        tests(
            "MQTTDestinations",
            [
                "AMQPLink", "DeliveryFixture", "FleetAuthority", "FleetCollector", "FleetDelivery", "FleetDocuments",
                "FleetStore", "HealthReadings", "LogLines", "MQTTLink", "ReadingDelivery", "ReadingFormats",
                "ReadingStore", "TestBroker", "TestFleetEngine", "TestRabbitMQ", "TestSupport", crypto, httpClient,
                logging, nioCore, nioHTTP1,
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ]),
        tests(
            "VitalDestination",
            [
                "DeliveryFixture", "ReadingDelivery", "ReadingStore", "VitalClient", "VitalSandbox", "HealthReadings",
                "ScriptedServer", "LogLines", "TestSupport", database, httpClient, lifecycle, logging, nioCore,
                nioHTTP1,
            ]),
        .target(
            name: "EmulatedRadio", dependencies: ["GATTClient", "GATTProfiles", "HealthReadings"],
            path: "Tests/EmulatedRadio", swiftSettings: settings),
        tests("GatewaySettings", ["HealthReadings", "ReadingStore", "TestSupport"]),
        tests("GuardedServer", ["HealthReadings"]),
        // Commands and routes are tested on an opened gateway: they share what sets one up.
        tests(
            "GatewayService",
            [
                "CloudSources", "FleetAuthority", "FleetDelivery", "MQTTDestinations", "MQTTLink",
                "GatewayCommands", "GatewaySettings", "GuardedServer", "LocalAPI", "VitalSandbox", "VitalClient",
                "HealthSyncClient", "EmulatedRadio", "HealthDevices", "GATTClient", "GATTProfiles",
                "FleetDocuments", "HealthReadings", "HelperProcesses", "LocalAccess", "LogLines", "ReadingDelivery",
                "ReadingStore", "ScriptedServer", "TestSupport", "WebDestinations", crypto, httpClient, httpServer,
                httpTypes,
                lifecycle, logging, nioCore, nioPosix, nioHTTP1, tls,
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ]),
        .target(
            name: "EmulatedReader", dependencies: ["ISO15693Reader"], path: "Tests/EmulatedReader",
            swiftSettings: settings),
        .target(name: "CardSocket", path: "Tests/CardSocket"),
        .target(
            name: "EmulatedCard", dependencies: ["CardSocket", "EmulatedReader"], path: "Tests/EmulatedCard",
            swiftSettings: settings),
        tests(
            "ISO15693Reader",
            [
                "HealthRelayNFC", "NFCPipe", "HelperProcesses", "CSandbox", "EmulatedReader", "EmulatedCard",
                "EncodedSensor", "FreeStyleLibre", "LibreReader", "TestSupport",
            ]),
        tests(
            "VitalSandbox",
            ["LogLines", "ScriptedServer", "TestSupport", crypto, httpClient, lifecycle, logging, nioCore, nioHTTP1]),
        .target(
            name: "EncodedSensor", dependencies: ["FreeStyleLibre", "HealthReadings"], path: "Tests/EncodedSensor",
            swiftSettings: settings),
        tests("FreeStyleLibre", ["EncodedSensor", "HealthReadings", "TestSupport"]),
        tests("LibreReader", ["EncodedSensor", "FreeStyleLibre", "HealthReadings", "ISO15693Reader"]),
        tests(
            "HealthRelayCLI",
            [
                "GatewayService", "GatewayCommands", "GatewaySettings", "HealthRelayCapture", "HealthRelayNFC",
                "HealthRelayReport",
                "EmulatedCard", "EmulatedCloud", "EmulatedPhone", "EmulatedRadio", "EmulatedReader",
                "EncodedSensor", "FreeStyleLibre", "GATTClient", "HealthReadings", "ReadingStore", "TestSupport",
                lifecycle, logging,
            ]),
        .target(name: "TestPostgreSQL", path: "Tests/TestPostgreSQL", swiftSettings: settings),
        tests("PostgreSQLLink", ["TestPostgreSQL"]),
        .target(name: "TestRabbitMQ", path: "Tests/TestRabbitMQ", swiftSettings: settings),
        .target(
            name: "TestFleetEngine",
            dependencies: [
                "AMQPLink", "FleetAuthority", "FleetDelivery", "FleetDocuments", "HealthReadings", "TestRabbitMQ",
                crypto, httpClient, logging, nioCore, nioHTTP1,
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            path: "Tests/TestFleetEngine", swiftSettings: settings),
        tests(
            "FleetCollector",
            [
                "AMQPLink", "DeliveryFixture", "FleetAuthority", "FleetDelivery", "FleetDocuments", "FleetStore",
                "GatewaySettings", "GuardedServer", "HealthReadings", "HealthRelayCollector", "LogLines",
                "ReadingDelivery", "ReadingStore", "ScriptedServer", "TestFleetEngine", "TestPostgreSQL",
                "TestRabbitMQ", "TestSupport", "WebDestinations", database, httpClient, logging, nioCore, nioHTTP1,
                tls,
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"), crypto,
            ]),
        tests(
            "FleetAuthority",
            [
                "FleetDocuments", "GatewaySettings", "HealthReadings", "LocalAccess", crypto, httpClient, lifecycle,
                logging, nioCore, nioHTTP1, tls,
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ]),
        tests("FleetStore", ["HealthReadings", "TestPostgreSQL", "TestSupport", database]),
        .testTarget(
            name: "LabTests",
            dependencies: [
                "BlueZCentral", "HealthDevices", "GATTClient", "GATTProfiles", "ReadingStore", "HealthReadings",
                logging,
            ],
            path: "Tests/Lab/LabTests", swiftSettings: settings),
    ],
    swiftLanguageModes: [.v6]
)

// `make test-arm64` builds the tests of the modules that it runs, and what they need.
if let tested = Context.environment["HEALTHRELAY_TESTS"]?.split(separator: ",").map(String.init) {
    package.targets.removeAll { $0.type == .test && !tested.contains($0.name) }
}

// The examples are a package of their own. Our tests compile them here, with the modules that are built anyway.
if Context.environment["HEALTHRELAY_EXAMPLES"] != nil {
    package.targets += [
        example("Scan", ["BlueZCentral", "GATTClient", "HealthDevices", "HealthReadings"]),
        example("PairAndRead", ["BlueZCentral", "GATTClient", "HealthDevices", "HealthReadings", "ReadingStore"]),
        example("ReplayToJSON", ["GATTClient", "HCICapture", "HealthDevices", "HealthReadings"]),
        example(
            "DeliverToYourOwn", ["HCICapture", "HealthDevices", "HealthReadings", "ReadingDelivery", "ReadingStore"]),
        example("ReadLibre", ["FreeStyleLibre", "HealthReadings", "ISO15693Reader", "LibreReader"]),
        example(
            "EmbedWithoutStore",
            ["BlueZCentral", "GATTClient", "HCICapture", "HealthDevices", "HealthReadings", logging]),
    ]
}

if let fuzzer {
    package.targets.append(
        .executableTarget(
            name: "HealthRelayFuzz",
            dependencies: [
                "HealthReadings", "GATTClient", "GATTProfiles", "HCIMonitor", "HCICapture", "HealthDevices",
                "DeviceReports", "FreeStyleLibre", "HealthSyncClient", "CloudSources", "FleetAuthority",
                "FleetCollector",
                "FleetDocuments", "ReadingImport",
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
                "ReadingStore", "OutgoingHTTP", "VitalClient", "GatewayCommands",
                "GatewaySettings", "LocalAPI", "VitalSandbox", "LibDBus",
                "ISO15693Reader", "NFCPipe",
            ],
            path: "Tests/Fuzz", exclude: ["run"], swiftSettings: settings,
            linkerSettings: [.unsafeFlags([fuzzer]), .linkedLibrary("stdc++")]))
}
