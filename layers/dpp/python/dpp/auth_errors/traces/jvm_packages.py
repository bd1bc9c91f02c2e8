"""JVM packages that are not part of an application (AUTH-10); all other packages are."""

HIDDEN = (
    "java.lang.reflect.", "java.lang.invoke.", "sun.reflect.", "jdk.internal.reflect.", "jdk.proxy",
    "com.sun.proxy.", "java.security.AccessController", "java.util.stream.",
    "java.util.concurrent.CompletableFuture", "java.util.ArrayList", "java.util.Optional", "java.lang.Iterable",
    "org.springframework.aop.", "org.springframework.cglib.", "org.springframework.transaction.interceptor.",
    "net.sf.cglib.", "net.bytebuddy.", "javassist.", "groovy.lang.", "org.codehaus.groovy.",
    "org.apache.groovy.", "kotlin.coroutines.", "kotlinx.coroutines.intrinsics.", "scala.runtime.",
    "scala.concurrent.impl.", "scala.collection.", "reactor.core.", "io.reactivex.", "rx.internal.",
    "io.opentelemetry.", "io.micrometer.", "com.newrelic.", "datadog.", "co.elastic.apm.",
)  # fmt: skip

ENTRY_POINTS = (
    "javax.servlet.http.HttpServlet.", "jakarta.servlet.http.HttpServlet.", "org.apache.catalina.core.",
    "org.apache.catalina.valves.", "org.apache.catalina.connector.", "org.apache.coyote.", "org.apache.tomcat.",
    "org.eclipse.jetty.server.", "org.eclipse.jetty.servlet.", "org.eclipse.jetty.ee", "io.undertow.",
    "org.springframework.security.web.FilterChainProxy",
    "org.springframework.security.web.ObservationFilterChainDecorator", "org.springframework.web.filter.",
    "org.springframework.web.servlet.", "org.springframework.web.method.support.",
    "org.springframework.web.reactive.", "org.springframework.boot.web.", "org.springframework.mock.web.",
    "org.springframework.scheduling.", "org.springframework.amqp.rabbit.listener.",
    "org.springframework.kafka.listener.", "org.glassfish.jersey.server.", "org.jboss.resteasy.",
    "io.quarkus.vertx.", "io.vertx.core.impl.", "io.vertx.ext.web.impl.", "io.netty.", "io.ktor.server.",
    "io.ktor.util.pipeline.", "io.grpc.internal.Serializing", "io.grpc.internal.ServerImpl",
    "io.grpc.stub.ServerCalls", "io.micronaut.http.server.", "play.core.", "play.api.mvc.", "akka.",
    "org.apache.pekko.", "kotlinx.coroutines.", "java.lang.Thread.", "java.lang.VirtualThread.",
    "java.util.concurrent.ThreadPoolExecutor", "java.util.concurrent.ForkJoin",
    "java.util.concurrent.FutureTask", "java.util.concurrent.Executors",
    "com.amazonaws.services.lambda.runtime.", "org.junit.",
)  # fmt: skip

LIBRARIES = (
    "java.", "javax.", "jakarta.", "jdk.", "sun.", "com.sun.", "kotlin.", "kotlinx.", "scala.", "groovy",
    "org.springframework.", "org.apache.", "org.eclipse.", "org.hibernate.", "org.jboss.", "org.wildfly.",
    "com.nimbusds.", "io.jsonwebtoken.", "com.auth0.", "org.jose4j.", "org.keycloak.", "org.opensaml.",
    "net.shibboleth.", "org.pac4j.", "com.onelogin.", "org.picketlink.", "com.okta.", "com.microsoft.",
    "com.unboundid.", "org.ldaptive.", "org.bouncycastle.", "org.glassfish.", "com.google.", "com.fasterxml.",
    "com.zaxxer.", "com.mysql.", "org.postgresql.", "org.mariadb.", "oracle.", "okhttp3.", "okio.",
    "retrofit2.", "feign.", "io.github.resilience4j.", "io.lettuce.", "redis.clients.", "com.amazonaws.",
    "software.amazon.", "io.vertx.", "io.quarkus.", "io.smallrye.", "io.micronaut.", "io.ktor.", "play.",
    "cats.", "zio.", "org.http4s.", "pdi.jwt.", "org.slf4j.", "ch.qos.logback.", "org.aspectj.", "org.bson.",
    "io.grpc.", "com.mongodb.", "graphql.", "org.mockito.",
)  # fmt: skip
