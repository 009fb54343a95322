import FleetAuthority
import FleetCollector
import FleetDocuments
import HealthReadings
import SwiftASN1
import X509

extension FuzzTarget {
    private static let gateway = GatewayID(ifValid: "ward-7")

    /// What gateways and their authority exchange, and the answer of a collector: the first octet picks the document.
    static let fleetEnrolment = FuzzTarget(
        "fleet-enrolment", longest: 4096,
        words: [
            #""token":""#, #""request":""#, #""authorities":""#, #""certificate":""#, #""authority_sha256":""#,
            #""receipts":[{"#, #""configuration":{"#, #""schema":1,"#,
        ],
        seeds: { _ in
            guard let gateway else { return [] }
            let (digits, moment) = (String(repeating: "0a", count: 32), Instant(seconds: 1_795_000_000))
            let ticket = EnrolmentTicket(
                gateway: gateway, url: "https://ca.example:8491", token: digits, authority: authority,
                fingerprint: digits, made: moment, expires: moment.advanced(bySeconds: 86_400))
            let answer = FleetAnswer(
                gateway: gateway,
                receipts: [FleetReceipt(gateway: gateway, batch: 7, stored: [ReadingID(high: 1, low: 2)])],
                configuration: FleetConfiguration(gateway: gateway, version: 3, settings: ["log.level": .text("debug")])
            )
            return [
                "0" + ticket.document.text,
                "1" + EnrolmentRequest(gateway: gateway, token: digits, request: request).document.text,
                "1" + EnrolmentRequest(gateway: gateway, token: nil, request: request).document.text,
                "2"
                    + EnrolmentAnswer(gateway: gateway, certificate: authority, authorities: authority).document.text,
                "3" + answer.document.text,
            ].inputs
        }
    ) { octets in
        guard let first = octets.first else { return }
        let rest = Array(octets.dropFirst())
        switch first % 4 {
        case 0:
            guard let ticket = try? EnrolmentTicket(rest) else { return }
            let again = try? EnrolmentTicket(Array(ticket.document.text.utf8))
            expect(again == ticket, "a token's file is not what it says")
            expect(!"\(ticket)".contains(ticket.token), "a token is shown")
        case 1:
            guard let request = try? EnrolmentRequest(rest) else { return }
            let again = try? EnrolmentRequest(Array(request.document.text.utf8))
            expect(
                again?.gateway == request.gateway && again?.token == request.token
                    && again?.request == request.request, "a request is not what its document says")
        case 2:
            guard let answer = try? EnrolmentAnswer(rest) else { return }
            let again = try? EnrolmentAnswer(Array(answer.document.text.utf8))
            expect(again == answer, "an answer is not what its document says")
        default:
            guard let answer = try? FleetAnswer(rest, for: gateway) else { return }
            let again = try? FleetAnswer(Array(answer.document.text.utf8), for: gateway)
            expect(again?.receipts == answer.receipts, "the receipts are not what their document says")
        }
    }

    /// What an authority and a collector read of others: the first octet picks the parser.
    static let fleetAuthority = FuzzTarget(
        "fleet-authority", longest: 2048,
        words: [
            "-----BEGIN X509 CRL-----\n", "-----END X509 CRL-----\n", "-----BEGIN CERTIFICATE REQUEST-----\n",
            "ingest: ", "store: ", "queue: ", "log.level: ", "sources: {map: {", "sync.backfill_days: ",
        ],
        seeds: { _ in
            let plain =
                ["0" + request, "1" + list, "2log: {level: debug}\nsync.backfill_days: 3\n"].inputs
                + ["3ingest: {listen: \"127.0.0.1:9000\"}\nstore: {postgresql: \"host=db\"}\n"].inputs
            // Without the armour a change of one byte is one of the structure.
            let inner = [("0", request), ("1", list)].compactMap { first, text in
                (try? PEMDocument(pemString: text)).map { Array(first.utf8) + $0.derBytes }
            }
            return plain + inner
        }
    ) { octets in
        guard let first = octets.first else { return }
        let rest = Array(octets.dropFirst())
        let text = String(decoding: rest, as: UTF8.self)
        switch first % 4 {
        case 0:
            let pem =
                rest.first == 0x30
                ? PEMDocument(type: CertificateSigningRequest.defaultPEMDiscriminator, derBytes: rest).pemString : text
            guard let key = try? KeyRequest(pem: pem) else { return }
            expect(key.digest.count == 64, "a key has no digest")
        case 1:
            guard let list = try? RevocationList(rest, signedBy: authorities) else { return }
            expect(list.serials == ["a1b2c3d4e5f6071"], "a list that nobody has signed was taken: \(list.serials)")
        case 2:
            guard let desired = try? DesiredSettings(yaml: text, path: "f") else { return }
            expect(
                desired.settings.keys.allSatisfy(FleetConfiguration.keys.contains), "a setting is not on the list")
        default:
            guard let settings = try? CollectorSettings(text: text, path: "f") else { return }
            expect((1...10_080).contains(settings.silentAfterMinutes), "a setting is out of its range")
        }
    }

    private static let authorities = (try? Certificate.all(inPEM: authority)) ?? []

    private static let authority = """
        -----BEGIN CERTIFICATE-----
        MIIBdjCCAR2gAwIBAgIUMORHZ9fwlvuBRL/F+DKyuZ7yxGwwCgYIKoZIzj0EAwIw
        EDEOMAwGA1UEAwwFZmxlZXQwIBcNMjYxMTI2MjEwMzMyWhgPMjEyNjExMDIyMTAz
        MzJaMBAxDjAMBgNVBAMMBWZsZWV0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
        ndEMFMZeVNG2dvzWIslkKhsIVvnmIt+sJQshcaPlf/eFIb4lYVtbuBCT9EZjPBMG
        SM1vICgA+ITXYMtER6Ia2qNTMFEwHQYDVR0OBBYEFMbDpxKfbEdkLTdZZd+cvUzM
        EOndMB8GA1UdIwQYMBaAFMbDpxKfbEdkLTdZZd+cvUzMEOndMA8GA1UdEwEB/wQF
        MAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgEY2p3MPuW41EY7YSKThBHQlC6XqhSZtw
        EcfDo5PIegcCIHHEccDLpBW5RSo433wBTptx2lx8isnl+vGMnfHapikI
        -----END CERTIFICATE-----

        """

    private static let list = """
        -----BEGIN X509 CRL-----
        MIHHMG4CAQEwCgYIKoZIzj0EAwIwEDEOMAwGA1UEAwwFZmxlZXQXDTI2MTEyNjIx
        MDMzMloYDzIxMjYxMTAyMjEwMzMyWjAbMBkCCAobLD1OX2BxFw0yNjExMDEwMDAw
        MDBaoA4wDDAKBgNVHRQEAwIBATAKBggqhkjOPQQDAgNJADBGAiEAmJKbcvhmrgAz
        xq9xqZ6Ymgef6WPKVS+w92yVhWIqgZ4CIQDD+sWhBv/rbLLaeRlIaIYBernKW2kF
        AHtpZvuIEv8D5w==
        -----END X509 CRL-----

        """

    private static let request = """
        -----BEGIN CERTIFICATE REQUEST-----
        MIHGMG4CAQAwDDEKMAgGA1UEAwwBeDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IA
        BL6qOnuzA4CyQQbUOrpQ4PD/X59Uo2i4nWcWa1n7Tc0Rilo4DeD3n+irBGW5Cvci
        TvQCNOIAkmQix+qe5hEdU5GgADAKBggqhkjOPQQDAgNIADBFAiALLHPyw3+bCOKH
        Jh+8FTsJdB+vwj5UqVFZwMT1tGEFmgIhAJyE/LrH1BhlgXzbJm2OqE3U7Jc1eIRC
        /hbN6NdGCNeC
        -----END CERTIFICATE REQUEST-----

        """
}
