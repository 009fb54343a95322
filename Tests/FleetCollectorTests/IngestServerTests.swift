import AsyncHTTPClient
import Crypto
import FleetCollector
import FleetDocuments
import FleetStore
import Foundation
import GatewaySettings
import HealthReadings
import Logging
import NIOCore
import NIOHTTP1
import NIOSSL
import SwiftASN1
import TestSupport
import Testing
import X509

@testable import GuardedServer

/// The ingest over real TLS on loopback.
@Suite struct IngestServerTests {
    private struct Caller {
        let client: HTTPClient
        let address: String

        func send(
            _ octets: [UInt8], to path: String = "/v1/readings", token: String? = nil
        ) async throws -> (status: UInt, text: String, headers: HTTPHeaders) {
            var request = HTTPClientRequest(url: address + path)
            request.method = octets.isEmpty ? .GET : .POST
            if let token { request.headers.add(name: "Authorization", value: "Bearer \(token)") }
            if !octets.isEmpty { request.body = .bytes(octets) }
            let response = try await client.execute(request, timeout: .seconds(60))
            let body = try await response.body.collect(upTo: 1 << 20)
            return (response.status.code, String(decoding: body.readableBytesView, as: UTF8.self), response.headers)
        }

        /// Begins a document of a megabyte that never ends; returns when it is answered all the same.
        func begin(token: String) async throws {
            let (pieces, more) = AsyncStream.makeStream(of: ByteBuffer.self)
            more.yield(ByteBuffer(bytes: [32]))
            var request = HTTPClientRequest(url: address + "/v1/readings")
            request.method = .POST
            request.headers.add(name: "Authorization", value: "Bearer \(token)")
            request.body = .stream(pieces, length: .known(Int64(IngestServer.mostOctets)))
            _ = try await client.execute(request, timeout: .seconds(60))
            more.finish()
        }
    }

    /// Runs a collector and calls it.
    private func collecting(
        _ settings: CollectorSettings = CollectorSettings(), certificate: (String, String)? = nil,
        _ body: @Sendable @escaping (Caller, String) async throws -> Void
    ) async throws {
        let directory = SampleBatch.folder()
        var settings = settings
        settings.listen = ListenAddress(host: "127.0.0.1", port: 0)
        let runner = CollectorRunner(
            settings, directory: directory, logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() })
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        let work = Task {
            defer { port.finish() }
            try await runner.run(isStoppedBySignals: false) { port.yield($0) }
        }
        let number = try #require(await ports.first { _ in true })
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .file(directory + "/tls.pem")
        if let certificate {
            tls.certificateChain = [.certificate(try NIOSSLCertificate(bytes: Array(certificate.0.utf8), format: .pem))]
            tls.privateKey = .privateKey(try NIOSSLPrivateKey(bytes: Array(certificate.1.utf8), format: .pem))
        }
        var configuration = HTTPClient.Configuration()
        configuration.tlsConfiguration = tls
        let client = HTTPClient(configuration: configuration)
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(Caller(client: client, address: "https://localhost:\(number)"), directory))
        } catch { result = .failure(error) }
        try? await client.shutdown()
        work.cancel()
        _ = try? await work.value
        try result.get()
    }

    @Test func aTokenSpeaksForItsGatewayAlone() async throws {
        try await collecting { caller, directory in
            let store = try SQLiteCentralStore(directory: directory)
            let token = try await GatewayTokens(store: store).make(for: "gw1", at: .systemClock)
            let batch = SampleBatch.octets("gw1", 1, ids: 0..<2)
            let taken = try await caller.send(batch, token: token)
            #expect(taken.status == 200 && taken.text.contains(#""stored":["\#(SampleBatch.id(0))""#))
            #expect(try await store.newest(of: "gw1", limit: 5).count == 2)
            #expect(try await caller.send(batch, token: token).status == 200)
            #expect(try await store.newest(of: "gw1", limit: 5).count == 2)
            #expect(try await caller.send(batch).status == 401)
            #expect(try await caller.send(batch, token: "wrong").status == 401)
            let foreign = try await caller.send(SampleBatch.octets("gw2", 1, ids: 0..<1), token: token)
            #expect(foreign.status == 403 && foreign.text.contains("gw2") && foreign.text.contains("gw1"))
            let newer = try await caller.send(SampleBatch.octets("gw1", 2, ids: 0..<1, schema: 9), token: token)
            #expect(newer.status == 422 && newer.text.contains("newer_schema"))
            let large = try await caller.send([UInt8](repeating: 32, count: IngestServer.mostOctets + 1), token: token)
            #expect(large.status == 413)
            let metrics = try await caller.send([], to: "/metrics")
            #expect(metrics.text.contains("healthrelay_fleet_readings 2\n"))
            #expect(metrics.text.contains("healthrelay_fleet_readings_repeated_total 2\n"))
            #expect(!metrics.text.contains("gw1"))
            let health = try await caller.send([], to: "/health")
            #expect(
                health.status == 200
                    && health.text == #"{"status":"ok","store":"ok","queue":null,"revocation_list":null}"#)
            await store.close()
        }
    }

    @Test(.timeLimit(.minutes(3))) func aGatewayThatEndsNoDocumentTakesItsOwnRoomAlone() async throws {
        try await collecting { caller, directory in
            let store = try SQLiteCentralStore(directory: directory)
            let tokens = GatewayTokens(store: store)
            let slow = try await tokens.make(for: "gw1", at: .systemClock)
            let other = try await tokens.make(for: "gw2", at: .systemClock)
            let holders = (0..<4).map { _ in
                Task { while !Task.isCancelled { try? await caller.begin(token: slow) } }
            }
            // Nothing of those four is stored, and each has its room from its header fields on.
            let another = [UInt8](repeating: 32, count: 300_000)
            try await until {
                let answer = try await caller.send(another, token: slow)
                return answer.status == 503 && answer.text.contains("store_busy")
            }
            let foreign = try await caller.send(SampleBatch.octets("gw2", 1, ids: 0..<1), token: other)
            #expect(foreign.status == 200)
            for holder in holders { holder.cancel() }
            for holder in holders { await holder.value }
            try await until {
                try await caller.send(SampleBatch.octets("gw1", 1, ids: 0..<1), token: slow).status == 200
            }
            await store.close()
        }
    }

    @Test func theGatewaysOfAClinicComeFromOneNetwork() {
        let census = ConnectionCensus(IngestServer.limits)
        let clinic = (0..<1000).count { census.enter(PeerAddress("2001:db8:0:1::\(String($0, radix: 16))")) }
        #expect(clinic > 800)
        // Another one finds room beside them.
        let second = (0..<1000).count { _ in census.enter(PeerAddress("192.0.2.1")) }
        #expect(second > 500)
    }

    @Test func aCertificateNamesItsGateway() async throws {
        let folder = SampleBatch.folder()
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let authority = P256.Signing.PrivateKey()
        func certificate(_ name: String, _ key: P256.Signing.PrivateKey, isAuthority: Bool) throws -> String {
            let issuer = try DistinguishedName { CommonName("clinic") }
            let certificate = try Certificate(
                version: .v3, serialNumber: .init(), publicKey: .init(key.publicKey), notValidBefore: Date() - 3600,
                notValidAfter: Date() + 86_400, issuer: issuer, subject: try DistinguishedName { CommonName(name) },
                signatureAlgorithm: .ecdsaWithSHA256,
                extensions: try Certificate.Extensions {
                    if isAuthority {
                        Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                    } else {
                        try ExtendedKeyUsage([.clientAuth])
                    }
                }, issuerPrivateKey: .init(authority))
            return try certificate.serializeAsPEM().pemString
        }
        var settings = CollectorSettings()
        settings.gatewayAuthorityFile = folder + "/ca.pem"
        try certificate("clinic", authority, isAuthority: true).write(
            toFile: folder + "/ca.pem", atomically: true, encoding: .utf8)
        let key = P256.Signing.PrivateKey()
        let mine = (try certificate("gw7", key, isAuthority: false), key.pemRepresentation)
        try await collecting(settings, certificate: mine) { caller, _ in
            let taken = try await caller.send(SampleBatch.octets("gw7", 1, ids: 0..<2))
            let foreign = try await caller.send(SampleBatch.octets("gw8", 1, ids: 0..<2))
            #expect(taken.status == 200 && foreign.status == 403)
        }
        // A certificate of nobody's ends the connection.
        let stranger = P256.Signing.PrivateKey()
        let subject = try DistinguishedName { CommonName("gw7") }
        let forged = try Certificate(
            version: .v3, serialNumber: .init(), publicKey: .init(stranger.publicKey), notValidBefore: Date() - 3600,
            notValidAfter: Date() + 86_400, issuer: subject, subject: subject, signatureAlgorithm: .ecdsaWithSHA256,
            extensions: Certificate.Extensions(), issuerPrivateKey: .init(stranger))
        let theirs = (try forged.serializeAsPEM().pemString, stranger.pemRepresentation)
        try await collecting(settings, certificate: theirs) { caller, _ in
            await #expect(throws: (any Error).self) {
                _ = try await caller.send(SampleBatch.octets("gw7", 1, ids: 0..<2))
            }
        }
    }

    @Test func theDemonstrationRunsToItsEnd() async throws {
        let (lines, line) = AsyncStream.makeStream(of: String.self)
        try await Demonstration { line.yield($0) }.run()
        line.finish()
        let text = await lines.reduce(into: "") { $0 += $1 + "\n" }
        #expect(text.contains("gw-0003") && text.contains("other_gateway") && text.contains("mg/dL"))
    }

    @Test func theDemonstrationThatStaysShowsItsPageUntilItIsEnded() async throws {
        let (lines, line) = AsyncStream.makeStream(of: String.self)
        let work = Task {
            defer { line.finish() }
            try await Demonstration(stays: true, pause: .milliseconds(10)) { line.yield($0) }.run()
        }
        var address: String?
        for await text in lines where text.hasPrefix("They go on sending.") {
            address = text.split(separator: " ").first { $0.hasPrefix("https://") }.map(String.init)
            break
        }
        work.cancel()
        try await work.value
        #expect(address?.hasSuffix("/") == true)
    }

    @Test func aHelloThatNamesTheMostBatchesIsAnsweredWithAllReceiptsInOneAnswer() async throws {
        try await collecting { caller, directory in
            let store = try SQLiteCentralStore(directory: directory)
            let token = try await GatewayTokens(store: store).make(for: "gw1", at: .systemClock)
            let desk = DocumentDesk(store: store, logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() })
            let numbers = try await SampleBatch.keepMany(
                FleetHello.mostBatches, readings: FleetBatch.mostItems, at: desk)
            let gateway = try GatewayID("gw1")
            let hello = FleetHello(gateway: gateway, sentAt: Instant(seconds: 1), version: "1", unconfirmed: numbers)
            let answer = try await caller.send(Array(hello.document.text.utf8), to: "/v1/hello", token: token)
            #expect(answer.status == 200)
            let receipts = try FleetAnswer(Array(answer.text.utf8), for: gateway).receipts
            #expect(receipts.map(\.batch) == numbers)
            #expect(receipts.allSatisfy { $0.stored.count == FleetBatch.mostItems })
            await store.close()
        }
    }
}
