import ReadingDelivery
import VitalClient

extension DeliveryFailure {
    /// Maps what the server said, or did not say, to what it means for delivery.
    init(_ error: VitalError) {
        let scope: Scope =
            error.isTheServers
            ? .destination : error.kind == .payloadTooLarge ? .tooLarge : error.isAboutSamples ? .items : .target
        self.init(
            scope, code: error.code, message: error.summary, serverSaid: error.serverSaid,
            needsPerson: error.concernsCredentials, retryAfter: error.retryAfter)
        namesReading = scope == .items && error.namesPlace
    }
}

extension VitalError {
    /// Whether the key is at fault, so that nothing can be delivered for anyone.
    var concernsCredentials: Bool { kind == .authenticationFailed || kind == .forbidden || kind == .tokenExpired }

    /// Whether the way to the server, the server as a whole, or the key is at fault.
    ///
    /// A single 5xx or a time-out may be about one target alone: a post too much for the server, one person's data.
    var isTheServers: Bool {
        switch kind {
        case .noConnection, .untrustedServer, .redirected, .rateLimitExceeded, .notJSON, .authenticationFailed,
            .forbidden, .tokenExpired:
            true
        case .serverError, .timeout, .unexpectedAnswer, .answerTooLarge: retryAfter != nil
        default: false
        }
    }

    /// Whether the server refuses the source rather than the samples: nobody documents with which status.
    var isSourceRefusal: Bool {
        switch kind {
        case .sourceNotConnected, .forbidden, .notFound, .conflict, .refused: true
        default: false
        }
    }

    /// Whether it may be the source: also a refusal that names no place in what was sent.
    var mayBeSourceRefusal: Bool {
        isSourceRefusal || isAboutResource || (kind == .validationFailed && !namesPlace && !isAboutEnvelope)
    }

    /// Whether fewer samples, or others, may be taken.
    var isAboutSamples: Bool {
        kind == .payloadTooLarge || (kind == .validationFailed && !isAboutEnvelope && !isAboutResource)
    }
}
